/**
 * A job's recorder: output as numbered lines, of which the last ones are kept.
 *
 * A number belongs to a line from the moment it is stored, in the order in which lines were completed, so a
 * reader that resumes behind a number sees each line once, also through another daemon. A line that is not
 * complete is not stored and not acknowledged: the guest still has it and sends it to the next daemon.
 */
import { limits } from '@squash/contract/limits';
import type { ExecEnd, ExecRow, StreamName } from '#store/rows.ts';
import type { Store } from '#store/store.ts';
import type { Offsets, Recorder } from './recorder.ts';

const newline = 0x0a;
/** Old lines go in batches of this part of the log, not one by one. */
const dropFraction = 8;

interface StreamState {
  taken: number;
  stored: number;
  partial: Buffer[];
  partialBytes: number;
}

export class LineRecorder implements Recorder {
  readonly #store: Store;
  readonly #row: ExecRow;
  readonly #streams: Record<StreamName, StreamState>;
  #complete: { readonly stream: StreamName; readonly data: Buffer }[] = [];
  #next: number;
  #first: number;
  #keptBytes: number;

  constructor(store: Store, row: ExecRow) {
    this.#store = store;
    this.#row = row;
    const state = (taken: number): StreamState => ({ taken, stored: taken, partial: [], partialBytes: 0 });
    this.#streams = { stdout: state(row.stdoutBytes), stderr: state(row.stderrBytes) };
    const span = store.output.lineSpan(row.key);
    this.#first = span.first;
    this.#next = span.last + 1;
    this.#keptBytes = span.bytes;
  }

  get unstoredBytes(): number {
    const { stdout, stderr } = this.#streams;
    return stdout.taken - stdout.stored + stderr.taken - stderr.stored;
  }

  take(stream: StreamName, data: Buffer): void {
    const state = this.#streams[stream];
    state.taken += data.length;
    let from = 0;
    while (from < data.length) {
      const room = limits.jobLineBytesMax - state.partialBytes;
      const end = data.indexOf(newline, from) + 1;
      const upTo = Math.min(end === 0 ? data.length : end, from + room);
      state.partial.push(data.subarray(from, upTo));
      state.partialBytes += upTo - from;
      from = upTo;
      if (upTo === end || state.partialBytes === limits.jobLineBytesMax) this.#completeLine(stream);
    }
  }

  flush(): Offsets {
    if (this.#complete.length > 0) this.#commit(undefined);
    const { stdout, stderr } = this.#streams;
    return { stdout: stdout.stored, stderr: stderr.stored };
  }

  finish(end: ExecEnd): void {
    this.#completeLine('stdout');
    this.#completeLine('stderr');
    this.#commit(end);
  }

  rewind(): Offsets {
    const offsets = this.flush();
    for (const state of Object.values(this.#streams)) {
      state.taken = state.stored;
      state.partial = [];
      state.partialBytes = 0;
    }
    return offsets;
  }

  row(): ExecRow {
    const { stdout, stderr } = this.#streams;
    return {
      ...this.#row,
      stdoutBytes: stdout.taken,
      stderrBytes: stderr.taken,
      storedBytes: this.#keptBytes,
    };
  }

  head(stream: StreamName): Buffer {
    return jobHead(this.#store, this.#row.key, stream);
  }

  #completeLine(stream: StreamName): void {
    const state = this.#streams[stream];
    if (state.partialBytes === 0) return;
    this.#complete.push({ stream, data: Buffer.concat(state.partial) });
    state.partial = [];
    state.partialBytes = 0;
  }

  #commit(end: ExecEnd | undefined): void {
    const before = { next: this.#next, first: this.#first, keptBytes: this.#keptBytes };
    const { stdout, stderr } = this.#streams;
    const offsets = {
      stdout: stdout.taken - stdout.partialBytes,
      stderr: stderr.taken - stderr.partialBytes,
    };
    try {
      this.#store.transaction(() => {
        for (const line of this.#complete) this.#append(line.stream, line.data);
        this.#store.execs.progress(this.#row.key, {
          stdoutBytes: offsets.stdout,
          stderrBytes: offsets.stderr,
          storedBytes: this.#keptBytes,
        });
        if (end !== undefined) this.#store.execs.finish(this.#row.key, end);
      });
    } catch (error) {
      // Nothing was written: the next try begins where this one did.
      this.#next = before.next;
      this.#first = before.first;
      this.#keptBytes = before.keptBytes;
      throw error;
    }
    this.#complete = [];
    stdout.stored = offsets.stdout;
    stderr.stored = offsets.stderr;
  }

  #append(stream: StreamName, data: Buffer): void {
    this.#store.output.appendLine(this.#row.key, { number: this.#next, stream, data });
    this.#next += 1;
    this.#keptBytes += data.length;
    if (this.#keptBytes <= limits.jobLogBytesMax && this.#next - this.#first <= limits.jobLogLinesMax) return;
    const dropped = this.#store.output.dropOldestLines(this.#row.key, {
      bytes: Math.max(0, this.#keptBytes - limits.jobLogBytesMax * (1 - 1 / dropFraction)),
      lines: Math.max(0, this.#next - this.#first - limits.jobLogLinesMax * (1 - 1 / dropFraction)),
    });
    this.#first = dropped.through + 1;
    this.#keptBytes -= dropped.bytes;
  }
}

/** The beginning of what is kept of a job's stream. */
export function jobHead(store: Store, key: number, stream: StreamName): Buffer {
  const parts: Buffer[] = [];
  let bytes = 0;
  for (let after = 0; ; ) {
    const lines = store.output.lines(key, after, 256);
    for (const line of lines) {
      after = line.number;
      if (line.stream !== stream) continue;
      parts.push(line.data);
      bytes += line.data.length;
      if (bytes >= limits.answerStreamBytesMax)
        return Buffer.concat(parts).subarray(0, limits.answerStreamBytesMax);
    }
    if (lines.length === 0) return Buffer.concat(parts);
  }
}
