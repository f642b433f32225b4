/**
 * Unix sockets in one directory, connected through the directory's descriptor.
 *
 * A socket's address holds 107 bytes. `/proc/self/fd/<directory>/<name>` is always short enough, however deep the
 * data directory lies, and it keeps meaning the directory that was opened.
 */
import { closeSync, openSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { Failure } from './failure.ts';

export class SocketDirectory implements Disposable {
  #fd: number | undefined;

  /** @throws the file system's error where the directory can't be opened */
  constructor(path: string) {
    this.#fd = openSync(path, 'r');
  }

  /**
   * Resolves with a connected stream that may be half-closed. `name` is relative to the directory.
   * @throws the socket's error (`ENOENT`, `ECONNREFUSED`), or the signal's reason
   */
  async connect(name: string, signal?: AbortSignal): Promise<Socket> {
    signal?.throwIfAborted();
    if (this.#fd === undefined) throw new Failure('closed', 'the socket directory is closed');
    const socket = connect({ path: `/proc/self/fd/${this.#fd}/${name}`, allowHalfOpen: true });
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    const abort = (): void => {
      socket.destroy();
      reject(signal?.reason);
    };
    socket.once('error', reject);
    socket.once('connect', () => resolve(socket));
    signal?.addEventListener('abort', abort, { once: true });
    try {
      return await promise;
    } finally {
      socket.off('error', reject);
      signal?.removeEventListener('abort', abort);
    }
  }

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}
