/**
 * A process's output from any position on: what is stored, then what comes, until it has ended.
 *
 * Readers read from the store, never from the process: one that is slow costs nobody anything, holds one batch in memory, and is
 * told how much it missed when the bounded store has moved on. Only who asks for it stalls the process instead.
 */
import { limits } from '@squash/contract/limits';
import type { StreamName } from '#store/rows.ts';
import type { Store } from '#store/store.ts';
import { changedOrAborted } from './job-log.ts';
import { unfollowed } from './processes.ts';
import type { Run, RunWatcher } from './run.ts';

export type OutputEvent =
  /** `seq` is the position behind it. */
  | { readonly type: 'output'; readonly seq: number; readonly stream: StreamName; readonly data: Buffer }
  | { readonly type: 'gap'; readonly seq: number; readonly bytes: number };

export interface OutputSource {
  readonly store: Store;
  readonly seq: number;
  /** Of the process's row. */
  readonly key: number;
  /** The process as it runs, or undefined once it has ended. */
  readonly run: () => Run | undefined;
  /** Bytes that it has written, as far as they are stored, and whether that is all. */
  readonly stored: () => { readonly bytes: number; readonly isAll: boolean };
}

export interface OutputWish {
  readonly after: number;
  /** False: only what is there. */
  readonly isFollowing: boolean;
  readonly isStalling: boolean;
}

export async function* followOutput(
  source: OutputSource,
  wish: OutputWish,
  signal: AbortSignal,
): AsyncGenerator<OutputEvent, void, void> {
  const { store, key } = source;
  let last = wish.after;
  const first = source.run();
  using _ = first?.look();
  const stall = wish.isStalling && first !== undefined ? new Stall(first, last) : undefined;
  try {
    while (!signal.aborted) {
      // Asked for before the store is read: a change in between is not missed.
      const run = source.run();
      const changed = wish.isFollowing ? run?.changed() : undefined;
      const pieces = store.read(() => store.processOutput.read(key, last, limits.processReadBytes));
      for (const { position, stream, data } of pieces) {
        if (position > last) yield { type: 'gap', seq: position, bytes: position - last };
        last = position + data.length;
        yield { type: 'output', seq: last, stream, data };
        stall?.read(last);
        if (signal.aborted) return;
      }
      if (pieces.length > 0) continue;
      if (changed === undefined) {
        const { bytes, isAll } = source.stored();
        if (bytes > last) yield { type: 'gap', seq: bytes, bytes: bytes - last };
        if (wish.isFollowing && !isAll) throw unfollowed(source.seq);
        return;
      }
      await changedOrAborted(changed, signal);
    }
  } finally {
    stall?.end();
  }
}

/** Keeps a process from writing further ahead of one reader than a session's buffer. */
class Stall implements RunWatcher {
  readonly #run: Run;
  #taken: number;
  #read: number;
  #room: PromiseWithResolvers<void> | undefined;

  constructor(run: Run, read: number) {
    const { stdoutBytes, stderrBytes } = run.present;
    this.#run = run;
    this.#taken = stdoutBytes + stderrBytes;
    this.#read = read;
    run.watch(this);
  }

  output(_stream: StreamName, data: Buffer): Promise<void> | undefined {
    this.#taken += data.length;
    if (this.#hasRoom) return undefined;
    this.#room ??= Promise.withResolvers<void>();
    return this.#room.promise;
  }

  read(position: number): void {
    this.#read = position;
    if (this.#hasRoom) this.unblock();
  }

  unblock(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }

  end(): void {
    this.#run.unwatch(this);
    this.unblock();
  }

  get #hasRoom(): boolean {
    return this.#taken - this.#read < limits.sessionBufferBytesMax;
  }
}
