/**
 * Receives a large body into a file of its own, with limits on size and silence.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { isDiskFull } from '@squash/base/errno';

export interface Upload extends AsyncDisposable {
  readonly path: string;
  readonly bytes: number;
}

/** Disposing removes the file, unless it was renamed away. @throws body_too_large, request_timeout, disk_full */
export async function receiveUpload(incoming: IncomingMessage, directory: string): Promise<Upload> {
  if (Number(incoming.headers['content-length'] ?? 0) > limits.uploadBytesMax) throw tooLarge();
  const path = join(directory, `upload-${randomBytes(8).toString('hex')}`);
  const remove = (): Promise<void> => rm(path, { force: true });
  try {
    const bytes = await writeBody(incoming, path);
    if (bytes === 0) throw new AppError('invalid_request', 'the body is empty: send the file itself');
    return { path, bytes, [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw isDiskFull(error)
      ? new AppError(
          'disk_full',
          'Cannot store the upload: the disk is full: free space in the data directory',
          {
            cause: error,
          },
        )
      : error;
  }
}

async function writeBody(incoming: IncomingMessage, path: string): Promise<number> {
  const file = await open(path, 'wx', 0o600);
  try {
    let bytes = 0;
    // The socket stays open where this ends early: the refusal is still to be sent.
    for await (const chunk of bodyChunks(incoming)) {
      bytes += chunk.length;
      if (bytes > limits.uploadBytesMax) throw tooLarge();
      await writeAll(file, chunk);
    }
    return bytes;
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, chunk: Buffer): Promise<void> {
  let written = 0;
  while (written < chunk.length) {
    written += (await file.write(chunk, written, chunk.length - written)).bytesWritten;
  }
}

/** A body as it comes. @throws request_timeout, invalid_request where it ends early */
export async function* bodyChunks(incoming: IncomingMessage): AsyncGenerator<Buffer, void, void> {
  const iterator = incoming.iterator({ destroyOnReturn: false });
  try {
    for (;;) {
      const result = await beforeSilence(iterator.next());
      if (result.done === true) break;
      yield result.value as Buffer;
    }
  } finally {
    // Where it ends early the body is another reader's. Not awaited: one that was silent is still being waited for.
    iterator.return?.().catch(() => undefined);
  }
  if (!incoming.complete) throw new AppError('invalid_request', 'the body ended early');
}

async function beforeSilence<T>(next: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new AppError('request_timeout', 'the body came too slowly')),
    limits.uploadIdleMs,
  );
  try {
    return await Promise.race([next, promise]);
  } catch (error) {
    // The stream's own failure is the client's: it went away in the middle.
    throw error instanceof AppError
      ? error
      : new AppError('invalid_request', 'the body ended early', { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

function tooLarge(): AppError {
  return new AppError('body_too_large', `The upload is larger than ${limits.uploadBytesMax} bytes`);
}
