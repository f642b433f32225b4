/**
 * What a runner logs, told on standard error as far as that keeps room for its answers: Squash keeps so many bytes of both. Some of it goes on
 * being told, since a run of which nothing comes is ended.
 */

const bytesAtOnce = 32_768;
const bytesPerS = 10;
const kept = 400;

/** The adapter's own. */
export function warn(text: string): void {
  process.stderr.write(`${text}\n`);
}

export class Warnings {
  readonly #began = performance.now();
  #told = 0;
  #last = '';

  /** The end of what was logged, told or not. */
  get last(): string {
    return this.#last.trim();
  }

  take(text: string): void {
    this.#last = `${this.#last}${text}`.slice(-kept);
    const room = bytesAtOnce + (bytesPerS * (performance.now() - this.#began)) / 1_000 - this.#told;
    const bytes = Buffer.byteLength(text);
    if (bytes > room) return;
    this.#told += bytes;
    process.stderr.write(text);
  }
}
