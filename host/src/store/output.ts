/**
 * What commands wrote: the first bytes of each stream of an exec, and the numbered lines of a job.
 *
 * An exec keeps its beginning, because the answer shows it; a job keeps its end, because a server that logged
 * for a day is looked at there. Both are bounded by the callers.
 */
import type { DatabaseSync } from 'node:sqlite';
import { type StreamName, streams } from './rows.ts';

export interface StoredLine {
  readonly number: number;
  readonly stream: StreamName;
  /** With its newline, where it had one. */
  readonly data: Buffer;
}

export interface DroppedLines {
  readonly through: number;
  readonly bytes: number;
}

export class OutputTable {
  readonly #append;
  readonly #read;
  readonly #appendLine;
  readonly #lines;
  readonly #dropLines;
  readonly #lineSpan;
  readonly #lineSizes;

  constructor(database: DatabaseSync) {
    this.#append = database.prepare('INSERT INTO output (exec, stream, data) VALUES (?, ?, ?)');
    this.#read = database.prepare('SELECT data FROM output WHERE exec = ? AND stream = ? ORDER BY key');
    this.#appendLine = database.prepare(
      'INSERT INTO job_lines (exec, number, stream, data) VALUES (?, ?, ?, ?)',
    );
    this.#lines = database.prepare(
      'SELECT number, stream, data FROM job_lines WHERE exec = ? AND number > ? ORDER BY number LIMIT ?',
    );
    this.#dropLines = database.prepare('DELETE FROM job_lines WHERE exec = ? AND number <= ?');
    this.#lineSpan = database.prepare(
      `SELECT coalesce(min(number), 1) AS first, coalesce(max(number), 0) AS last,
        coalesce(sum(length(data)), 0) AS bytes FROM job_lines WHERE exec = ?`,
    );
    this.#lineSizes = database.prepare(
      'SELECT number, length(data) AS bytes FROM job_lines WHERE exec = ? ORDER BY number',
    );
  }

  append(exec: number, stream: StreamName, data: Uint8Array): void {
    this.#append.run(exec, streams[stream], data);
  }

  /** The first `bytesMax` bytes that are kept of a stream. */
  read(exec: number, stream: StreamName, bytesMax: number): Buffer {
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for (const row of this.#read.iterate(exec, streams[stream])) {
      const data = blob(row['data']);
      parts.push(data);
      bytes += data.byteLength;
      if (bytes >= bytesMax) break;
    }
    return Buffer.concat(parts).subarray(0, bytesMax);
  }

  appendLine(exec: number, line: StoredLine): void {
    this.#appendLine.run(exec, line.number, streams[line.stream], line.data);
  }

  /** Lines behind number `after`, at most `limit`. */
  lines(exec: number, after: number, limit: number): readonly StoredLine[] {
    return this.#lines.all(exec, after, limit).map((row) => ({
      number: Number(row['number']),
      stream: row['stream'] === streams.stderr ? 'stderr' : 'stdout',
      data: Buffer.from(blob(row['data'])),
    }));
  }

  /** What a job's log holds now: for a daemon that takes the job over. */
  lineSpan(exec: number): { readonly first: number; readonly last: number; readonly bytes: number } {
    const row = this.#lineSpan.get(exec);
    return {
      first: Number(row?.['first'] ?? 1),
      last: Number(row?.['last'] ?? 0),
      bytes: Number(row?.['bytes'] ?? 0),
    };
  }

  /** Drops the oldest lines until this much is gone; returns the last number dropped and what it freed. */
  dropOldestLines(exec: number, least: { readonly bytes: number; readonly lines: number }): DroppedLines {
    let through = 0;
    let bytes = 0;
    let lines = 0;
    for (const row of this.#lineSizes.iterate(exec)) {
      if (bytes >= least.bytes && lines >= least.lines) break;
      through = Number(row['number']);
      bytes += Number(row['bytes']);
      lines += 1;
    }
    this.#dropLines.run(exec, through);
    return { through, bytes };
  }
}

export function blob(value: unknown): Uint8Array {
  return value instanceof Uint8Array ? value : new Uint8Array();
}
