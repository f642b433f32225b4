/**
 * A process's recorder: every byte has a position in the whole, and of the whole the beginning or the end is kept.
 *
 * Position and bytes are stored in one transaction with the offsets at which the guest goes on, so that after the daemon's death
 * each byte has the position it was first given, and readers who resume by it miss nothing and get nothing twice.
 */
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { OutputPiece } from '#store/process-output.ts';
import type { ExecEnd, ExecRow, StoredProcess, StreamName } from '#store/rows.ts';
import type { Store } from '#store/store.ts';
import type { OutputBudget } from './output-budget.ts';
import type { Offsets, Recorder } from './recorder.ts';

interface Kept {
  readonly bytes: number;
  readonly pieces: number;
  readonly last: OutputPiece | undefined;
}

interface ProcessRecorderParts {
  readonly store: Store;
  readonly budget: OutputBudget;
  readonly sandbox: SandboxId;
}

export class ProcessRecorder implements Recorder {
  readonly #parts: ProcessRecorderParts;
  readonly #row: ExecRow;
  readonly #how: StoredProcess;
  readonly #taken: Record<StreamName, number>;
  #position: number;
  #kept: Kept;
  #pending: { readonly stream: StreamName; readonly data: Buffer }[] = [];
  #unstoredBytes = 0;
  #isFinished = false;

  constructor(parts: ProcessRecorderParts, row: ExecRow, how: StoredProcess) {
    this.#parts = parts;
    this.#row = row;
    this.#how = how;
    this.#taken = { stdout: row.stdoutBytes, stderr: row.stderrBytes };
    this.#position = row.stdoutBytes + row.stderrBytes;
    this.#kept =
      this.#position === 0
        ? { bytes: 0, pieces: 0, last: undefined }
        : parts.store.read(() => parts.store.processOutput.kept(row.key));
    parts.budget.add(parts.sandbox, this.#kept.bytes);
  }

  get unstoredBytes(): number {
    return this.#unstoredBytes;
  }

  take(stream: StreamName, data: Buffer): void {
    this.#taken[stream] += data.length;
    this.#unstoredBytes += data.length;
    this.#pending.push({ stream, data });
  }

  flush(): Offsets {
    if (this.#unstoredBytes > 0) this.#commit(undefined);
    return { ...this.#taken };
  }

  finish(end: ExecEnd): void {
    this.#commit(end);
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.#parts.budget.add(this.#parts.sandbox, -this.#kept.bytes);
  }

  rewind(): Offsets {
    // A failed flush keeps everything, so what was taken and not stored is still here: nothing is sent twice.
    return this.flush();
  }

  row(): ExecRow {
    return {
      ...this.#row,
      stdoutBytes: this.#taken.stdout,
      stderrBytes: this.#taken.stderr,
      storedBytes: this.#kept.bytes,
    };
  }

  head(stream: StreamName): Buffer {
    return this.#parts.store.read(() =>
      this.#parts.store.processOutput.head(this.#row.key, stream, limits.answerStreamBytesMax),
    );
  }

  /** What was written is only forgotten here when the transaction is through. */
  #commit(end: ExecEnd | undefined): void {
    const { store, budget, sandbox } = this.#parts;
    const written = store.transaction(() => {
      const result = this.#unstoredBytes === 0 ? undefined : this.#write();
      if (end !== undefined) store.execs.finish(this.#row.key, end);
      return result;
    });
    if (written === undefined) return;
    budget.add(sandbox, written.kept.bytes - this.#kept.bytes);
    this.#kept = written.kept;
    this.#position = written.position;
    this.#pending = [];
    this.#unstoredBytes = 0;
  }

  #write(): { readonly kept: Kept; readonly position: number } {
    const { store, budget, sandbox } = this.#parts;
    const max = budget.allowed(sandbox, this.#how.outputBytesMax);
    let kept = this.#kept;
    let position = this.#position;
    for (const { stream, data } of joined(this.#pending)) {
      kept =
        this.#how.keep === 'head'
          ? this.#addHead(kept, { position, stream, data }, max)
          : this.#addTail(kept, { position, stream, data }, max);
      position += data.length;
    }
    if (this.#how.keep === 'tail') {
      const least = { bytesMin: max, piecesMax: limits.processPiecesMax };
      const rest = store.processOutput.dropOldest(this.#row.key, kept, least);
      kept = { ...rest, last: kept.last };
    }
    store.execs.progress(this.#row.key, {
      stdoutBytes: this.#taken.stdout,
      stderrBytes: this.#taken.stderr,
      storedBytes: kept.bytes,
    });
    return { kept, position };
  }

  #addHead(kept: Kept, piece: OutputPiece, max: number): Kept {
    const room = kept.pieces < limits.processPiecesMax ? Math.max(0, max - kept.bytes) : 0;
    // Behind a byte that was left out nothing is kept: a beginning has no holes.
    const isWhole = kept.bytes === piece.position;
    return isWhole && room > 0 ? this.#put(kept, { ...piece, data: piece.data.subarray(0, room) }) : kept;
  }

  #addTail(kept: Kept, piece: OutputPiece, max: number): Kept {
    const skipped = Math.max(0, piece.data.length - max);
    if (skipped === piece.data.length) return kept;
    return this.#put(kept, {
      ...piece,
      position: piece.position + skipped,
      data: piece.data.subarray(skipped),
    });
  }

  #put(kept: Kept, piece: OutputPiece): Kept {
    const { last } = kept;
    const { processOutput } = this.#parts.store;
    const isMore =
      last !== undefined &&
      last.stream === piece.stream &&
      last.data.length < limits.processPieceBytesMin &&
      last.position + last.data.length === piece.position;
    const whole = isMore ? { ...last, data: Buffer.concat([last.data, piece.data]) } : piece;
    processOutput.put(this.#row.key, whole);
    return {
      bytes: kept.bytes + piece.data.length,
      pieces: kept.pieces + (isMore ? 0 : 1),
      last: whole,
    };
  }
}

/** Neighbours of one stream become one piece. */
function* joined(
  parts: readonly { readonly stream: StreamName; readonly data: Buffer }[],
): Generator<{ readonly stream: StreamName; readonly data: Buffer }> {
  let run: Buffer[] = [];
  for (const [index, { stream, data }] of parts.entries()) {
    run.push(data);
    if (parts[index + 1]?.stream === stream) continue;
    yield { stream, data: run.length === 1 ? data : Buffer.concat(run) };
    run = [];
  }
}
