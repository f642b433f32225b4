/**
 * A bounded amount of something, of which one sandbox may hold as much as is left: half of it alone, a third beside
 * another one that wants all it can get. Whoever comes next finds a share, however many hold what they can.
 */
export class FairShare {
  readonly #all: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  constructor(all: number) {
    this.#all = all;
  }

  /** False where there is not so much for this one; give it back with `give`. */
  take(who: string, amount = 1): boolean {
    const held = this.#held.get(who) ?? 0;
    if (held + amount > this.#all - this.#taken - amount) return false;
    this.#held.set(who, held + amount);
    this.#taken += amount;
    return true;
  }

  give(who: string, amount = 1): void {
    const left = (this.#held.get(who) ?? 0) - amount;
    if (left > 0) this.#held.set(who, left);
    else this.#held.delete(who);
    this.#taken -= amount;
  }
}
