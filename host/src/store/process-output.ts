/**
 * The output of processes: pieces of both streams in the order in which they came, each at its position in the whole.
 *
 * A position counts the bytes before it, of both streams, kept or not. So a reader that says where it stopped goes on at the very
 * next byte, and what the bounded table does not have any more shows as a gap of known size.
 */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { blob } from './output.ts';
import { type StreamName, streams } from './rows.ts';

export interface OutputPiece {
  readonly position: number;
  readonly stream: StreamName;
  readonly data: Buffer;
}

export interface KeptOutput {
  readonly bytes: number;
  readonly pieces: number;
  /** The latest piece: more of its stream is added to it. */
  readonly last: OutputPiece | undefined;
}

export class ProcessOutputTable {
  readonly #put;
  readonly #read;
  readonly #ofStream;
  readonly #kept;
  readonly #last;
  readonly #sizes;
  readonly #drop;

  constructor(database: DatabaseSync) {
    this.#put = database.prepare(
      'INSERT OR REPLACE INTO process_output (exec, position, stream, data) VALUES (?, ?, ?, ?)',
    );
    this.#read = database.prepare(
      `SELECT position, stream, data FROM process_output WHERE exec = ?1 AND position >= coalesce(
        (SELECT max(position) FROM process_output WHERE exec = ?1 AND position <= ?2), 0) ORDER BY position`,
    );
    this.#ofStream = database.prepare(
      'SELECT position, stream, data FROM process_output WHERE exec = ? AND stream = ? ORDER BY position',
    );
    this.#kept = database.prepare(
      'SELECT count(*) AS pieces, coalesce(sum(length(data)), 0) AS bytes FROM process_output WHERE exec = ?',
    );
    this.#last = database.prepare(
      'SELECT position, stream, data FROM process_output WHERE exec = ? ORDER BY position DESC LIMIT 1',
    );
    this.#sizes = database.prepare(
      'SELECT position, length(data) AS bytes FROM process_output WHERE exec = ? ORDER BY position',
    );
    this.#drop = database.prepare('DELETE FROM process_output WHERE exec = ? AND position <= ?');
  }

  /** A piece at a position that is taken replaces what stands there. */
  put(exec: number, { position, stream, data }: OutputPiece): void {
    this.#put.run(exec, position, streams[stream], data);
  }

  /** What is kept behind byte `after`, in order, until about `bytesMax`; the first piece is cut there. */
  read(exec: number, after: number, bytesMax: number): readonly OutputPiece[] {
    const pieces: OutputPiece[] = [];
    let bytes = 0;
    for (const row of this.#read.iterate(exec, after)) {
      const piece = pieceOf(row);
      const skipped = Math.max(0, after - piece.position);
      if (skipped >= piece.data.length) continue;
      pieces.push({ ...piece, position: piece.position + skipped, data: piece.data.subarray(skipped) });
      bytes += piece.data.length - skipped;
      if (bytes >= bytesMax) break;
    }
    return pieces;
  }

  /** The first `bytesMax` bytes that are kept of one stream. */
  head(exec: number, stream: StreamName, bytesMax: number): Buffer {
    const parts: Buffer[] = [];
    let bytes = 0;
    for (const row of this.#ofStream.iterate(exec, streams[stream])) {
      const { data } = pieceOf(row);
      parts.push(data);
      bytes += data.length;
      if (bytes >= bytesMax) break;
    }
    return Buffer.concat(parts).subarray(0, bytesMax);
  }

  /** For a daemon that takes the process over. */
  kept(exec: number): KeptOutput {
    const row = this.#kept.get(exec);
    const last = this.#last.get(exec);
    return {
      bytes: Number(row?.['bytes'] ?? 0),
      pieces: Number(row?.['pieces'] ?? 0),
      last: last === undefined ? undefined : pieceOf(last),
    };
  }

  /** Drops the oldest pieces as long as the rest still has `bytesMin`, or there are more than `piecesMax`. */
  dropOldest(
    exec: number,
    kept: { readonly bytes: number; readonly pieces: number },
    least: { readonly bytesMin: number; readonly piecesMax: number },
  ): { readonly bytes: number; readonly pieces: number } {
    let { bytes, pieces } = kept;
    let through = -1;
    for (const row of this.#sizes.iterate(exec)) {
      const size = Number(row['bytes']);
      if (bytes - size < least.bytesMin && pieces <= least.piecesMax) break;
      through = Number(row['position']);
      bytes -= size;
      pieces -= 1;
    }
    if (through >= 0) this.#drop.run(exec, through);
    return { bytes, pieces };
  }
}

function pieceOf(row: Record<string, SQLOutputValue>): OutputPiece {
  return {
    position: Number(row['position']),
    stream: row['stream'] === streams.stderr ? 'stderr' : 'stdout',
    data: Buffer.from(blob(row['data'])),
  };
}
