/** A time limit that stands still while somebody is being asked. */
export class Stopwatch {
  readonly #limitMs: number;
  readonly #onOver: () => void;
  #spentMs = 0;
  #since: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(limitMs: number, onOver: () => void) {
    this.#limitMs = limitMs;
    this.#onOver = onOver;
  }

  get spentMs(): number {
    return this.#spentMs + (this.#since === undefined ? 0 : performance.now() - this.#since);
  }

  start(): void {
    if (this.#since !== undefined) return;
    this.#since = performance.now();
    this.#timer = setTimeout(this.#onOver, Math.max(0, this.#limitMs - this.#spentMs));
  }

  stop(): void {
    this.#spentMs = this.spentMs;
    this.#since = undefined;
    clearTimeout(this.#timer);
  }
}
