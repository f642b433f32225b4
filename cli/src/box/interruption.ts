/**
 * What a signal to our own process means for a box. The command gets it (`forward-signals.ts`) and some time to end by itself; then
 * the box is stopped, which ends the stream that we wait for. Ctrl-C alone is the command's own affair once it runs.
 */
import { constants } from 'node:os';
import { CliFailure } from '../failure.ts';

const watched = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
type Watched = (typeof watched)[number];

const graceMs = 3_000;

export class Interruption implements Disposable {
  readonly #listeners: readonly (readonly [Watched, () => void])[];
  #first: Watched | undefined;
  #stop: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor() {
    this.#listeners = watched.map((name) => [name, () => this.#came(name)] as const);
    for (const [name, listener] of this.#listeners) process.on(name, listener);
  }

  /** From now on a signal is the command's, and `stop` is called where it goes on all the same. @throws aborted where one came before */
  runs(stop: () => void): void {
    this.check();
    this.#stop = stop;
  }

  /** @throws aborted */
  check(): void {
    if (this.#first === undefined) return;
    throw new CliFailure(
      'aborted',
      `${this.#first} came before the command ran`,
      128 + constants.signals[this.#first],
    );
  }

  /** Somebody asked us to end, by Ctrl-C or as service managers do. */
  get isAsked(): boolean {
    return this.#first === 'SIGINT' || this.#first === 'SIGTERM';
  }

  #came(name: Watched): void {
    this.#first ??= name;
    if (this.#stop === undefined || name === 'SIGINT') return;
    this.#timer ??= setTimeout(this.#stop, graceMs);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const [name, listener] of this.#listeners) process.off(name, listener);
  }
}
