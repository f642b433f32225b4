/** Reads a file whose size says nothing: one of /proc says none, and may have no end. */
import { readSync } from 'node:fs';

/** From where the descriptor stands; undefined where it is longer. */
export function readAtMost(fd: number, bytesMax: number): Buffer | undefined {
  const bytes = Buffer.alloc(bytesMax + 1);
  let length = 0;
  for (let more = 1; more > 0 && length <= bytesMax; length += more) {
    more = readSync(fd, bytes, length, bytes.length - length, null);
  }
  return length <= bytesMax ? bytes.subarray(0, length) : undefined;
}
