/**
 * Input for one process from any number of senders: one piece is on its way at a time, whoever sent it.
 *
 * A piece that a process does not read stays on its way after its sender was told so; the next one is not taken before it is
 * through. So what waits in the daemon for a process that never reads is one piece, however often it is sent to.
 */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';

/** How long a sender waits for a process that does not read. */
export interface Patience {
  /** For each piece; undefined: as long as it takes. */
  readonly waitMs: number | undefined;
  /** Resolves when the sender is gone, and nobody waits any more. */
  readonly gone: Promise<void> | undefined;
}

export class StdinTurns {
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;

  /** Resolves when the process, or its pipe, took the piece. False: not in time, and `isSent` says whether it still will. */
  async take(
    write: () => Promise<void>,
    patience: Patience,
  ): Promise<{ readonly isTaken: boolean; readonly isSent: boolean }> {
    if (this.#waiting >= limits.processStdinWaitersMax) {
      throw new AppError(
        'stdin_blocked',
        `${this.#waiting} requests wait already for the process to read its input`,
      );
    }
    this.#waiting += 1;
    try {
      for (let before = this.#last; ; before = this.#last) {
        if (!(await inTime(before, patience))) return { isTaken: false, isSent: false };
        if (before === this.#last) break;
      }
      const sent = write();
      // A failed write is its own sender's to tell, not the next one's.
      this.#last = sent.catch(() => undefined);
      return { isTaken: await inTime(sent, patience), isSent: true };
    } finally {
      this.#waiting -= 1;
    }
  }
}

async function inTime(work: Promise<void>, { waitMs, gone }: Patience): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<false>();
  const timer = waitMs === undefined ? undefined : setTimeout(resolve, waitMs, false);
  void gone?.then(() => resolve(false));
  try {
    return await Promise.race([work.then(() => true), promise]);
  } finally {
    clearTimeout(timer);
  }
}
