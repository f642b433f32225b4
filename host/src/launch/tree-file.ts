/** One file that a box has written over a directory of the host, whole: the launcher sends no long ones. */
import { changeLimits } from '@squash/contract/change-limits';
import { encodeFields, FrameDecoder, FrameError } from '@squash/contract/guest/codec';
import type { SocketDirectory } from '@squash/base/socket-directory';
import { connectLauncher, refusal, unavailable } from './launch-connection.ts';
import type { FieldValue } from './launch-fields.ts';
import { refusedByOlder } from './older-launcher.ts';

/** Reading so little takes no time; a launcher that is hung is ended by others. */
const answerMsMax = 30_000;

/** @throws host_path_refused, file_not_found, not_a_file, launch_failed */
export async function treeFile(sockets: SocketDirectory, fields: readonly FieldValue[]): Promise<Uint8Array> {
  const socket = await connectLauncher(sockets);
  const deadline = setTimeout(() => void socket.destroy(), answerMsMax);
  try {
    socket.write(encodeFields('treeFile', fields));
    const decoder = new FrameDecoder();
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      for (const frame of decoder.decode(chunk)) {
        if (frame.kind === 'data') {
          bytes += frame.data.length;
          if (frame.type !== 'data' || bytes > changeLimits.fileBytesMax)
            throw new FrameError('type', `squash-launch sent ${frame.type}`);
          // The decoder's own bytes are overwritten by what comes next.
          pieces.push(Uint8Array.from(frame.data));
        } else if (frame.type === 'ok') {
          return Buffer.concat(pieces);
        } else if (frame.type === 'error') {
          refusedByOlder(refusal(frame.fields), 'read a file of a box');
        }
      }
    }
    throw unavailable('squash-launch closed the connection in the middle of a file', undefined);
  } finally {
    clearTimeout(deadline);
    socket.destroy();
  }
}
