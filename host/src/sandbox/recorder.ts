/**
 * Takes a command's output and brings it into the store; what is stored may be acknowledged, nothing else.
 *
 * Offsets count bytes since the command began, kept or not. A recorder that takes over after a restart begins
 * at the stored offsets, where the guest goes on. Two kinds: an exec keeps its beginning, a job its last lines.
 */
import { limits } from '@squash/contract/limits';
import type { ExecEnd, ExecRow, StreamName } from '#store/rows.ts';
import type { Store } from '#store/store.ts';

export interface Offsets {
  readonly stdout: number;
  readonly stderr: number;
}

export interface Recorder {
  take(stream: StreamName, data: Buffer): void;
  /** Bytes taken and not stored: what the command may be waiting for. */
  readonly unstoredBytes: number;
  /** Stores what was taken, in one transaction. @throws disk_full, and then nothing is lost */
  flush(): Offsets;
  /** The same, and the end in the same transaction. */
  finish(end: ExecEnd): void;
  /** Forgets what is not stored: the guest sends it again. */
  rewind(): Offsets;
  /** The row with the bytes that were taken. */
  row(): ExecRow;
  /** The first bytes of a stream, as the answer shows them. */
  head(stream: StreamName): Buffer;
}

interface StreamState {
  /** Taken from the guest. */
  taken: number;
  /** Of these, in the store. */
  stored: number;
  /** Bytes that are kept in the database. */
  kept: number;
  /** The first `answerStreamBytesMax`, in memory: the answer needs no read. */
  readonly head: Buffer[];
  headBytes: number;
}

/** Keeps the first `storedStreamBytesMax` bytes of each stream; the rest is counted. */
export class HeadRecorder implements Recorder {
  readonly #store: Store;
  readonly #row: ExecRow;
  readonly #streams: Record<StreamName, StreamState>;
  #pending: { readonly stream: StreamName; readonly data: Buffer }[] = [];
  #unstoredBytes = 0;

  constructor(store: Store, row: ExecRow) {
    this.#store = store;
    this.#row = row;
    const state = (stream: StreamName, taken: number): StreamState => {
      const head = taken === 0 ? [] : [store.output.read(row.key, stream, limits.answerStreamBytesMax)];
      const headBytes = head[0]?.length ?? 0;
      return { taken, stored: taken, kept: Math.min(taken, limits.storedStreamBytesMax), head, headBytes };
    };
    this.#streams = { stdout: state('stdout', row.stdoutBytes), stderr: state('stderr', row.stderrBytes) };
  }

  get unstoredBytes(): number {
    return this.#unstoredBytes;
  }

  take(stream: StreamName, data: Buffer): void {
    const state = this.#streams[stream];
    state.taken += data.length;
    this.#unstoredBytes += data.length;
    const kept = data.subarray(0, limits.storedStreamBytesMax - state.kept);
    if (kept.length > 0) this.#pending.push({ stream, data: kept });
    state.kept += kept.length;
    const shown = data.subarray(0, limits.answerStreamBytesMax - state.headBytes);
    if (shown.length > 0) state.head.push(shown);
    state.headBytes += shown.length;
  }

  flush(): Offsets {
    if (this.#unstoredBytes > 0) this.#store.transaction(() => this.#write());
    return this.#settle();
  }

  finish(end: ExecEnd): void {
    this.#store.transaction(() => {
      if (this.#unstoredBytes > 0) this.#write();
      this.#store.execs.finish(this.#row.key, end);
    });
    this.#settle();
  }

  rewind(): Offsets {
    // A failed flush keeps everything, so what was taken and not stored is still here: nothing is sent twice.
    return this.flush();
  }

  row(): ExecRow {
    const { stdout, stderr } = this.#streams;
    return {
      ...this.#row,
      stdoutBytes: stdout.taken,
      stderrBytes: stderr.taken,
      storedBytes: stdout.kept + stderr.kept,
    };
  }

  head(stream: StreamName): Buffer {
    return Buffer.concat(this.#streams[stream].head);
  }

  #write(): void {
    // Neighbours of one stream become one row: a command that writes byte by byte makes no row per byte.
    let run: Buffer[] = [];
    for (const [index, part] of this.#pending.entries()) {
      run.push(part.data);
      if (this.#pending[index + 1]?.stream === part.stream) continue;
      this.#store.output.append(
        this.#row.key,
        part.stream,
        run.length === 1 ? part.data : Buffer.concat(run),
      );
      run = [];
    }
    this.#store.execs.progress(this.#row.key, this.row());
  }

  #settle(): Offsets {
    this.#pending = [];
    this.#unstoredBytes = 0;
    const { stdout, stderr } = this.#streams;
    stdout.stored = stdout.taken;
    stderr.stored = stderr.taken;
    return { stdout: stdout.stored, stderr: stderr.stored };
  }
}
