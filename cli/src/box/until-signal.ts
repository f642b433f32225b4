/** Work that a signal breaks off, so that what it made on the way goes before the program does. */
import { constants } from 'node:os';
import { CliFailure } from '../failure.ts';

const watched = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export class UntilSignal implements Disposable {
  readonly #stop = new AbortController();
  readonly #listeners = watched.map((name) => {
    const listener = (): void =>
      this.#stop.abort(new CliFailure('aborted', `${name} came`, 128 + constants.signals[name]));
    process.on(name, listener);
    return { name, listener };
  });

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  [Symbol.dispose](): void {
    for (const { name, listener } of this.#listeners) process.off(name, listener);
  }
}
