/**
 * A tree below the data directory as a tar, in the pieces that the launcher sends. It walks no faster than it is read.
 *
 * The names come in order and the same tree gives the same bytes. Deleted names are character devices 0:0 and opaque
 * directories carry `user.overlay.opaque`, as they lie in the upper of the kernel's overlay.
 */
import { once } from 'node:events';
import { encodeFields, FrameDecoder, FrameError } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import type { SocketDirectory } from '@squash/base/socket-directory';
import { connectLauncher, refusal, unavailable } from './launch-connection.ts';
import { refusedByOlder } from './older-launcher.ts';

/** Ends with how many files changed while they were read: they are cut or filled up to the size that they had. */
export type TarAnswer = AsyncGenerator<Uint8Array, { readonly changed: number }>;

/** Whoever leaves the loop before its end, or aborts, ends the walk. @throws layer_corrupt, snapshot_path_too_long, launch_failed */
export async function* treeTar(sockets: SocketDirectory, path: string, signal?: AbortSignal): TarAnswer {
  const socket = await connectLauncher(sockets, signal);
  const abort = (): void => void socket.destroy();
  signal?.addEventListener('abort', abort, { once: true });
  try {
    socket.write(encodeFields('treeTar', [['path', path]]));
    const decoder = new FrameDecoder();
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      for (const frame of decoder.decode(chunk)) {
        if (frame.kind === 'data') {
          if (frame.type !== 'data') throw new FrameError('type', `squash-launch sent ${frame.type}`);
          yield frame.data;
        } else if (frame.type === 'ok') {
          return { changed: new FieldReader(frame.fields).integer('inodes') };
        } else if (frame.type === 'error') {
          refusedByOlder(refusal(frame.fields), 'read a layer as a tar');
        }
      }
    }
    signal?.throwIfAborted();
    throw unavailable('squash-launch closed the connection in the middle of a tar', undefined);
  } finally {
    signal?.removeEventListener('abort', abort);
    socket.destroy();
    if (!socket.closed) await once(socket, 'close');
  }
}
