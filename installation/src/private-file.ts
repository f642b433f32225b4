/**
 * Files of the operator's that hold values or passwords: their mode and owner are a part of their validity.
 *
 * What a newcomer would get wrong: a file that others can read has already given its values away, one that others can write
 * is not the operator's word. And the descriptor is judged, not the name: another file may stand behind it a moment later.
 */
import { type BigIntStats, closeSync, constants, fstatSync, openSync } from 'node:fs';
import { readAtMost } from '@squash/base/bounded-read';

export interface PrivateFile {
  readonly text: string;
  readonly found: BigIntStats;
}

/**
 * @param refused makes the error of what is wrong with it: `is not a regular file`, never with a part of its text
 * @returns undefined where there is none
 */
export function readPrivateFile(
  path: string,
  bytesMax: number,
  refused: (problem: string) => Error,
): PrivateFile | undefined {
  let descriptor: number;
  try {
    // Not blocking: a pipe of that name must not hold up everything.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw refused(unreadable(error));
  }
  try {
    // Before the reading: what is written meanwhile gives another mark, and is read again.
    const found = fstatSync(descriptor, { bigint: true });
    if (!found.isFile()) throw refused('is not a regular file');
    if (Number(found.uid) !== process.geteuid?.()) {
      throw refused('belongs to another user than the one Squash runs as');
    }
    if ((found.mode & 0o077n) !== 0n) throw refused('can be read or written by others: chmod 600 it');
    const bytes = bytesOf(descriptor, bytesMax, refused);
    if (bytes === undefined) throw refused(`is larger than ${bytesMax} bytes`);
    return { text: bytes.toString('utf8'), found };
  } finally {
    closeSync(descriptor);
  }
}

function bytesOf(
  descriptor: number,
  bytesMax: number,
  refused: (problem: string) => Error,
): Buffer | undefined {
  try {
    return readAtMost(descriptor, bytesMax);
  } catch (error) {
    // Some files of /proc can't be read so.
    throw refused(unreadable(error));
  }
}

function unreadable(error: unknown): string {
  return `can not be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`;
}

/** JSON.parse quotes what it stumbled over, which may be a value: neither its words nor the error itself go on. */
export function parsePrivateJson(text: string, refused: (problem: string) => Error): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw refused('is not JSON');
  }
}
