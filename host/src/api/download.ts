/** An answer that is a squashfs file, so many of them at once. */
import type { FileHandle } from 'node:fs/promises';
import type { Places } from '../http/places.ts';

/** @param open its file is closed by whoever sends it, and here where it can't be sent. @throws stream_limit */
export async function download(places: Places, owner: string | null, open: () => Promise<FileHandle>) {
  const onEnd = places.take(owner);
  let file: FileHandle | undefined;
  try {
    file = await open();
    const { size: bytes } = await file.stat();
    return { type: 'file', contentType: 'application/octet-stream', file, bytes, onEnd } as const;
  } catch (error) {
    onEnd();
    await file?.close();
    throw error;
  }
}
