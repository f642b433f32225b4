/**
 * Binds a Unix socket that only its owner can open, at a path of any length.
 *
 * A socket's address holds 107 bytes; a longer path is bound as `/proc/self/fd/<directory>/<name>`, which the
 * kernel resolves to the same file. The descriptor must live as long as the server: closing removes the file by
 * the name it was bound with.
 */
import { open, rm, stat } from 'node:fs/promises';
import { connect, type Server } from 'node:net';
import { basename, dirname } from 'node:path';
import { socketPathBytesMax } from '@squash/contract/data-directory';
import { AppError } from '@squash/contract/errors';

export async function listenOnSocket(server: Server, path: string): Promise<AsyncDisposable> {
  const directory = await open(dirname(path), 'r');
  try {
    const reachable =
      Buffer.byteLength(path) <= socketPathBytesMax
        ? path
        : `/proc/self/fd/${directory.fd}/${basename(path)}`;
    await removeStale(path, reachable);
    await bindPrivate(server, reachable);
    return { [Symbol.asyncDispose]: () => directory.close() };
  } catch (error) {
    await directory.close();
    throw error;
  }
}

/** The mode must hold from the first moment: a chmod after the bind would leave a gap for others to connect. */
async function bindPrivate(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject).once('listening', resolve);
  const before = process.umask(0o177);
  try {
    // The socket is bound before listen() returns, so the mask is in force for exactly this call.
    server.listen(path);
  } finally {
    process.umask(before);
  }
  await promise;
  server.off('error', reject);
}

/** A socket that a killed daemon left is removed; one that answers belongs to a living daemon. */
async function removeStale(path: string, reachable: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return;
  if (!found.isSocket()) {
    throw new AppError('config_invalid', `Cannot listen on "${path}": a file of this name exists: remove it`);
  }
  if (await isAnswered(reachable)) {
    throw new AppError('data_locked', `Cannot listen on "${path}": another daemon answers there`);
  }
  await rm(path);
}

async function isAnswered(path: string): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
