/**
 * Whether the launcher still answers. A process that is stopped keeps its connections, and the kernel takes new ones for
 * it: only who asks finds out. What is asked is the watch's own first answer, which the launcher gives without a
 * child and every release of it knows.
 *
 * What a newcomer would get wrong: silence is counted in looks, not in time. A daemon that was stopped itself, or a machine that
 * slept, finds that hours have passed and nobody had been asked. Nor is a look a silence because its time is over: timers
 * run before sockets are read, and a daemon that was held up has its answer there.
 */
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
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
      const found = await look(this.#sockets, answerMs, signal);
      if (found === 'answer') this.#silences = 0;
      if (found === 'silence') this.#silences += 1;
      if (this.#silences * (lookMs + answerMs) >= hungMs) this.#hung.resolve();
    }
  }
}

/** For a daemon's start. False where it answers nothing for `hungMs`; true, too, when nobody waits any more. */
export async function waitForLauncher(
  sockets: SocketDirectory,
  times: Partial<LookTimes>,
  signal: AbortSignal,
): Promise<boolean> {
  const { answerMs, hungMs } = { ...timesDefault, ...times };
  for (let silences = 0; silences * answerMs < hungMs; ) {
    const found = await look(sockets, answerMs, signal);
    if (found === 'answer' || signal.aborted) return true;
    if (found === 'silence') silences += 1;
  }
  return false;
}

/** `unsure`: who looked was stopped meanwhile, perhaps with the launcher. */
type Found = 'answer' | 'silence' | 'unsure';

/**
 * Takes `answerMs` where nothing is answered, even if the kernel refuses at once because the queue is full: a start of many
 * daemons or requests fills it for a moment. Nobody who listens is an answer: one that is gone does not hang, and whoever
 * watches sees its end.
 */
async function look(sockets: SocketDirectory, answerMs: number, signal: AbortSignal): Promise<Found> {
  const begunMs = performance.now();
  if (await answers(sockets, answerMs, signal)) return 'answer';
  return performance.now() - begunMs < 2 * answerMs ? 'silence' : 'unsure';
}

async function answers(sockets: SocketDirectory, answerMs: number, signal: AbortSignal): Promise<boolean> {
  let socket: Socket;
  try {
    socket = await connectLauncher(sockets, signal);
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'EAGAIN')) return true;
    await pause(answerMs, signal);
    return false;
  }
  const answered = new AbortController();
  for (const event of ['error', 'end', 'close', 'data']) socket.on(event, () => answered.abort());
  socket.write(encodeFields('sandboxWatch', []));
  await pause(answerMs, AbortSignal.any([answered.signal, signal]));
  // Once around: what lies in the socket is read.
  await setImmediate();
  socket.destroy();
  return answered.signal.aborted;
}
