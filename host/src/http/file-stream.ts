/**
 * A file as a response body, read no faster than the client takes it. The file is closed at the end, when the client
 * goes away, and when it takes nothing for `downloadIdleMs`: an open file keeps its room on the disk.
 */
import type { FileHandle } from 'node:fs/promises';
import { Failure } from '@squash/base/failure';
import { limits } from '@squash/contract/limits';

/** @param onEnd called once */
export function fileStream(file: FileHandle, onEnd: () => void): ReadableStream<Uint8Array> {
  let timer: NodeJS.Timeout | undefined;
  let isEnded = false;
  const end = async (): Promise<void> => {
    if (isEnded) return;
    isEnded = true;
    clearTimeout(timer);
    await file.close();
    onEnd();
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        clearTimeout(timer);
        try {
          const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(limits.downloadChunkBytes));
          if (bytesRead === 0) {
            await end();
            controller.close();
            return;
          }
          controller.enqueue(buffer.subarray(0, bytesRead));
          timer = setTimeout(() => {
            controller.error(new Failure('not_taken', 'nobody takes the file'));
            void end();
          }, limits.downloadIdleMs);
        } catch (error) {
          await end();
          // The length is sent already: a body cut short is how a client learns that this is not all.
          controller.error(error);
        }
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}
