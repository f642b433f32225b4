/**
 * Whether the launcher still answers. A process that is stopped keeps its connections, and the kernel takes new ones for
 * it: only who asks finds out. What is asked is the watch's own first answer, which the launcher gives without a
 * child and every release of it knows.
 *
 * What a newcomer would get wrong: silence is counted in looks, not in time. A daemon that was stopped itself, or a machine that
 * slept, finds that hours have passed and nobody had been asked.
 */
import { pause } from '@squash/base/pause';
import type { SocketDirectory } from '@squash/base/socket-directory';
import { encodeFields } from '@squash/contract/guest/codec';
import { limits } from '@squash/contract/limits';
import { connectLauncher } from './launch-connection.ts';

export interface LookTimes {
  /** Between two looks, and how long an answer may take. */
  readonly lookMs: number;
  readonly answerMs: number;
  /** One that has answered nothing for so long hangs. */
  readonly hungMs: number;
}

const timesDefault: LookTimes = {
  lookMs: limits.launcherLookMs,
  answerMs: limits.launcherLookAnswerMs,
  hungMs: limits.launcherHungMs,
};

export class LauncherLook implements AsyncDisposable {
  readonly #sockets: SocketDirectory;
  readonly #times: LookTimes;
  readonly #stopping = new AbortController();
  readonly #hung = Promise.withResolvers<void>();
  readonly #done: Promise<void>;
  #silences = 0;

  /** Begins at once. */
  constructor(sockets: SocketDirectory, times: Partial<LookTimes> = {}) {
    this.#sockets = sockets;
    this.#times = { ...timesDefault, ...times };
    this.#done = this.#run();
  }

  get isSilent(): boolean {
    return this.#silences > 0;
  }

  /** Resolves when it has been silent for too long. */
  get hung(): Promise<void> {
    return this.#hung.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    const { lookMs, answerMs, hungMs } = this.#times;
    for (;;) {
      await pause(lookMs, signal);
      if (signal.aborted) return;
      this.#silences = (await answers(this.#sockets, answerMs, signal)) ? 0 : this.#silences + 1;
      if (this.#silences * (lookMs + answerMs) >= hungMs) this.#hung.resolve();
    }
  }
}

/** For a daemon's start. False where it answers nothing for `hungMs`. */
export async function waitForLauncher(
  sockets: SocketDirectory,
  times: Partial<LookTimes> = {},
): Promise<boolean> {
  const { answerMs, hungMs } = { ...timesDefault, ...times };
  const { signal } = new AbortController();
  for (let silentMs = 0; silentMs < hungMs; silentMs += answerMs) {
    if (await answers(sockets, answerMs, signal)) return true;
  }
  return false;
}

/** Also true where nobody listens: one that is gone does not hang, and whoever watches sees its end. */
async function answers(sockets: SocketDirectory, answerMs: number, signal: AbortSignal): Promise<boolean> {
  const late = AbortSignal.timeout(answerMs);
  const isOver = AbortSignal.any([late, signal]);
  try {
    const socket = await connectLauncher(sockets, isOver);
    const { promise, resolve } = Promise.withResolvers<void>();
    isOver.addEventListener('abort', () => resolve(), { once: true });
    socket.on('error', () => resolve());
    socket.once('close', () => resolve()).once('data', () => resolve());
    socket.write(encodeFields('sandboxWatch', []));
    await promise;
    socket.destroy();
  } catch (error) {
    // Refused or broken off is somebody else's to say. But the queue of one that takes nobody is full at some time.
    const cause = error instanceof Error ? error.cause : undefined;
    if (cause instanceof Error && 'code' in cause && cause.code === 'EAGAIN') return false;
  }
  return !late.aborted;
}
