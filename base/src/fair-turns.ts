/**
 * A bounded number of places, taken in turn by those who wait: first by sandbox, then by age. A sandbox with ten
 * thousand waiting connections delays another one's by one place, not by ten thousand. And none holds more than are
 * left, so that the next finds a place at once, also where others dial into the void.
 */
export class FairTurns {
  readonly #all: number;
  readonly #each: number;
  readonly #held = new Map<string, number>();
  /** In the order of their turns. */
  readonly #waiting = new Map<string, Set<() => void>>();
  #taken = 0;

  constructor(places: { readonly all: number; readonly each: number }) {
    this.#all = places.all;
    this.#each = places.each;
  }

  /** Calls `begin` when there is a place, at once where there is one now. Give it back with `done`. */
  take(who: string, begin: () => void): void {
    if (this.#hasPlace(who) && !this.#waiting.has(who)) {
      this.#hold(who);
      begin();
      return;
    }
    const queue = this.#waiting.get(who);
    if (queue === undefined) this.#waiting.set(who, new Set([begin]));
    else queue.add(begin);
  }

  /** Waits no more. Where its turn has come already, this does nothing: its place is given back with `done`. */
  leave(who: string, begin: () => void): void {
    const queue = this.#waiting.get(who);
    queue?.delete(begin);
    if (queue?.size === 0) this.#waiting.delete(who);
  }

  done(who: string): void {
    const held = (this.#held.get(who) ?? 0) - 1;
    if (held <= 0) this.#held.delete(who);
    else this.#held.set(who, held);
    this.#taken -= 1;
    this.#next();
  }

  #hasPlace(who: string): boolean {
    return (this.#held.get(who) ?? 0) < Math.min(this.#each, this.#all - this.#taken);
  }

  #hold(who: string): void {
    this.#held.set(who, (this.#held.get(who) ?? 0) + 1);
    this.#taken += 1;
  }

  #next(): void {
    for (const [who, queue] of this.#waiting) {
      if (this.#taken >= this.#all) return;
      if (!this.#hasPlace(who)) continue;
      const [begin] = queue;
      // To the end of the line, where there is more to do for this one.
      this.#waiting.delete(who);
      if (begin === undefined) continue;
      queue.delete(begin);
      if (queue.size > 0) this.#waiting.set(who, queue);
      this.#hold(who);
      begin();
    }
  }
}
