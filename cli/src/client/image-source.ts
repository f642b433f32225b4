/** A squashfs file of the caller's, or standard input, to be sent to the daemon. */
import { createReadStream, type ReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import { CliFailure, Failure, fileProblem } from '../failure.ts';

interface ImageSource {
  readonly stream: AsyncIterable<Buffer>;
  /** Undefined where it is no regular file. */
  readonly bytes: number | undefined;
}

/** What the file is called, without its suffix; undefined for standard input. */
export function imageName(file: string): string | undefined {
  return file === '-' ? undefined : basename(file).replace(/\.(squashfs|sqfs)$/, '');
}

/** @param file `-` is standard input */
export async function openImage(file: string): Promise<ImageSource> {
  if (file === '-') return { stream: process.stdin as AsyncIterable<Buffer>, bytes: undefined };
  try {
    const handle = await open(file);
    const facts = await handle.stat();
    if (facts.isDirectory()) throw new Failure('is_directory', 'it is a directory');
    const stream: ReadStream = createReadStream('', { fd: handle, highWaterMark: 262_144 });
    return { stream, bytes: facts.isFile() ? facts.size : undefined };
  } catch (cause) {
    throw new CliFailure('file_unreadable', `can't read "${file}": ${fileProblem(cause)}`);
  }
}
