/**
 * Whether anything comes of a run: kept output, or an action that its agent asks for. Time is that of this process, and counts anew
 * with the next daemon.
 *
 * What a newcomer would get wrong: what an agent can do without end and without anybody having something of it (looks, connections,
 * refused requests, the same action again) is no activity. What is, is bounded itself: output by `output_bytes_max`, actions of a run by
 * `actionsOfRunMax`.
 */
export class IdleWatch implements Disposable {
  readonly #ms: number;
  readonly #idle = new AbortController();
  #activeMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number) {
    this.#ms = ms;
  }

  /** Aborts when nothing has come for that long. */
  get signal(): AbortSignal {
    return this.#idle.signal;
  }

  /** The command runs from here on. */
  begin(): void {
    this.active();
    this.#timer = setTimeout(() => this.#look(), this.#ms);
  }

  active(): void {
    this.#activeMs = performance.now();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #look(): void {
    const leftMs = this.#activeMs + this.#ms - performance.now();
    if (leftMs <= 0) return this.#idle.abort();
    this.#timer = setTimeout(() => this.#look(), Math.ceil(leftMs));
  }
}
