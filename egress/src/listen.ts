/**
 * Binds a Unix socket that only its owner can open, at a path of any length. The database's lock has made sure that a
 * socket which is there already belongs to nobody.
 */
import { open, rm } from 'node:fs/promises';
import type { Server } from 'node:net';
import { basename, dirname } from 'node:path';
import { socketPathBytesMax } from '@squash/contract/data-directory';

/** Disposed: the server has ended, the file is gone. Connections are the caller's. */
export async function listenPrivately(server: Server, path: string): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await open(dirname(path), 'r'));
  await rm(path, { force: true });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject).once('listening', resolve);
  // A longer path is bound through the directory's descriptor, which lives as long as the server.
  const isShort = Buffer.byteLength(path) <= socketPathBytesMax;
  const before = process.umask(0o177);
  try {
    // The socket is bound before listen() returns: the mask is in force for exactly this call.
    server.listen({
      path: isShort ? path : `/proc/self/fd/${directory.fd}/${basename(path)}`,
      backlog: 4_096,
    });
  } finally {
    process.umask(before);
  }
  await promise;
  server.off('error', reject);
  stack.defer(() => new Promise((done) => void server.close(() => done())));
  return stack.move();
}
