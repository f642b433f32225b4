/** Tells when nobody has needed the daemon for a while: nothing has run, and nobody has asked. */
import type { Clock } from '@squash/base/clock';

export interface IdleOptions {
  /** 0: never. */
  readonly ms: number;
  readonly clock: Pick<Clock, 'monoMs'>;
  /** Whether a sandbox has processes, or is about to. */
  readonly isRunning: () => boolean;
  /** Requests, streams and WebSockets: in progress, and so far. A connection that a client keeps for later is none. */
  readonly requests: () => { readonly active: number; readonly begun: number };
}

/** Looks so often, so that a program that waits costs next to nothing. */
const looksPerWait = 20;
const lookMsMax = 5_000;

export class IdleExit implements Disposable {
  /** Resolves once it has been so long. */
  readonly idle: Promise<'idle'>;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor({ ms, clock, isRunning, requests }: IdleOptions) {
    const { promise, resolve } = Promise.withResolvers<'idle'>();
    this.idle = promise;
    if (ms === 0) return;
    let sinceMs = clock.monoMs();
    let before = 0;
    const look = (): void => {
      const { active, begun } = requests();
      const nowMs = clock.monoMs();
      // Who came and went between two looks was here, too.
      if (active > 0 || begun !== before || isRunning()) sinceMs = nowMs;
      before = begun;
      if (nowMs - sinceMs >= ms) resolve('idle');
    };
    this.#timer = setInterval(look, Math.min(lookMsMax, Math.ceil(ms / looksPerWait)));
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
