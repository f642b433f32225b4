/**
 * Standard input in pieces, read when the last piece was taken.
 *
 * A file or device (often `/dev/null`) is read as it is: Node's stream for files costs a call 3 ms. A pipe, a
 * socket or a terminal needs Node's stream, which waits without holding a thread that the process's end would wait for.
 */
import { fstatSync, read } from 'node:fs';
import { isatty } from 'node:tty';
import { promisify } from 'node:util';

const descriptor = 0;
const chunkBytesMax = 65_536;

export interface InputSource {
  readonly chunks: AsyncIterable<Buffer>;
  /** Idempotent. No more pieces come. */
  readonly close: () => void;
}

export function openInputSource(): InputSource {
  const stat = fstatSync(descriptor);
  if (isatty(descriptor) || stat.isFIFO() || stat.isSocket()) {
    const stream: AsyncIterable<Buffer> & { destroy(): unknown } = process.stdin;
    return { chunks: stream, close: () => void stream.destroy() };
  }
  const closing = new AbortController();
  return { chunks: readFile(closing.signal), close: () => closing.abort() };
}

async function* readFile(closing: AbortSignal): AsyncGenerator<Buffer, void, void> {
  const readSome = promisify(read);
  while (!closing.aborted) {
    const chunk = Buffer.allocUnsafe(chunkBytesMax);
    // At the descriptor's own place, which programs that share it go on from.
    const { bytesRead } = await readSome(descriptor, chunk, 0, chunk.length, null);
    if (bytesRead === 0) return;
    yield chunk.subarray(0, bytesRead);
  }
}
