/** Layers as other engines carry them: a tar in gzip, known by two digests. What was made once is remembered beside the images. */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream, createWriteStream, mkdirSync } from 'node:fs';
import { type FileHandle, readdir, readFile, rm, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { z } from 'zod';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { isDiskFull } from '@squash/base/errno';
import { AppError } from '@squash/contract/errors';
import type { ModuleName } from '@squash/contract/ids';
import { digestPattern } from '@squash/contract/image-reference';
import { limits } from '@squash/contract/limits';
import { layerOut, type OutForm } from './layer-out.ts';

const gzipLevel = 6;
/** How often the disk's room is looked at. */
const lookBytes = 1 << 25;

const blobSchema = z.strictObject({
  /** Of how tars and gzip are written: another way gives other bytes. */
  form: z.literal(1),
  diffId: z.string().regex(digestPattern),
  digest: z.string().regex(digestPattern),
  size: z.int().min(0),
});
export type LayerBlob = Omit<z.infer<typeof blobSchema>, 'form'>;

export interface RawLayer extends AsyncDisposable {
  readonly path: string;
  readonly diffId: string;
}

/** To a file, at the pace of the disk: whoever holds the tree is soon free. Disposing removes it. @throws image_unsupported */
export async function writeRaw(
  tar: AsyncIterable<Uint8Array>,
  { path, form }: { readonly path: string; readonly form: OutForm },
  signal: AbortSignal,
): Promise<RawLayer> {
  const hash = createHash('sha256');
  const remove = (): Promise<void> => rm(path, { force: true });
  try {
    const taken = hashed(layerOut(tar, form), hash, roomIn(dirname(path)));
    await pipeline(taken, createWriteStream(path, { flags: 'wx', mode: 0o600 }), { signal });
  } catch (cause) {
    await remove();
    signal.throwIfAborted();
    throw cause;
  }
  return { path, diffId: `sha256:${hash.digest('hex')}`, [Symbol.asyncDispose]: remove };
}

/** Compressed, at a place of a file. */
export async function writeBlob(
  { path, diffId }: Pick<RawLayer, 'path' | 'diffId'>,
  { file, at }: { readonly file: FileHandle; readonly at: number },
  signal: AbortSignal,
): Promise<LayerBlob> {
  const hash = createHash('sha256');
  const checkRoom = roomIn(dirname(path));
  let size = 0;
  const write = async (source: AsyncIterable<Buffer>): Promise<void> => {
    for await (const piece of hashed(source, hash, checkRoom)) {
      for (let done = 0; done < piece.length; )
        done += (await file.write(piece, done, piece.length - done, at + size + done)).bytesWritten;
      size += piece.length;
    }
  };
  const source = createReadStream(path, { highWaterMark: 1 << 18 });
  try {
    await pipeline(source, createGzip({ level: gzipLevel }), write, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw cause;
  }
  return { diffId, digest: `sha256:${hash.digest('hex')}`, size };
}

async function* hashed(
  source: AsyncIterable<Buffer>,
  hash: Hash,
  checkRoom: (bytes: number) => Promise<void>,
): AsyncGenerator<Buffer, void, void> {
  for await (const piece of source) {
    hash.update(piece);
    await checkRoom(piece.length);
    yield piece;
  }
}

function roomIn(directory: string): (bytes: number) => Promise<void> {
  let until = 0;
  return async (bytes) => {
    until -= bytes;
    if (until > 0) return;
    until = lookBytes;
    const { bavail, bsize } = await statfs(directory);
    if (bavail * bsize < limits.imageFreeBytesMin) throw noRoom();
  };
}

/** What `body` does, told as a full disk where it is that. @throws disk_full */
export async function saidIfFull<T>(body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    throw isDiskFull(cause) ? noRoom(cause) : cause;
  }
}

function noRoom(cause?: unknown): AppError {
  return new AppError(
    'disk_full',
    'Cannot send the image: the data directory has no room to make its layers',
    {
      cause,
    },
  );
}

/** What layers are as blobs: a small file for each, which may be missing or wrong: then the blob is made to find out. */
export class BlobNotes {
  readonly #directory: string;

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'images', 'blobs');
    mkdirSync(this.#directory, { recursive: true });
  }

  async find(module: ModuleName): Promise<LayerBlob | undefined> {
    try {
      const { diffId, digest, size } = blobSchema.parse(
        JSON.parse(await readFile(this.#path(module), 'utf8')),
      );
      return { diffId, digest, size };
    } catch {
      // Of no use: it is written anew.
      return undefined;
    }
  }

  async keep(module: ModuleName, blob: LayerBlob): Promise<void> {
    await writeFileAtomic(this.#path(module), `${JSON.stringify({ form: 1, ...blob })}\n`);
  }

  /** Removes those of other modules. */
  async collect(used: ReadonlySet<string>): Promise<void> {
    for (const file of await readdir(this.#directory))
      if (!used.has(file.replace(/\.json$/, ''))) await rm(join(this.#directory, file), { force: true });
  }

  #path(module: ModuleName): string {
    return join(this.#directory, `${module}.json`);
  }
}
