/** A file of this machine that something is downloaded into: it has its name when all of it is there. */
import { badRequest } from './errors.ts';
import { nodeParts } from './node-parts.ts';

/** @throws where there is no file system, or the file can't be written */
export async function downloadFile(parts: AsyncIterable<Uint8Array>, local: string): Promise<void> {
  const { fs } = nodeParts() ?? noFiles();
  const partial = partialName(local);
  const handle = await fs.promises.open(partial, 'wx');
  try {
    try {
      for await (const part of parts) await handle.appendFile(part);
    } finally {
      await handle.close();
    }
    await fs.promises.rename(partial, local);
  } catch (error) {
    await fs.promises.rm(partial, { force: true });
    throw error;
  }
}

export function partialName(local: string): string {
  const [word = 0] = crypto.getRandomValues(new Uint32Array(1));
  return `${local.replace(/\/+$/, '')}.${word.toString(16).padStart(8, '0')}.part`;
}

export function noFiles(): never {
  throw badRequest('a browser has no files of this machine: use what takes and gives bytes');
}
