/**
 * An image of a sandbox: the layers it was made of, and what was written in it as one more.
 *
 * What was written is had as a snapshot, so it is whole after any restore. Modules become layers as they are: a layer is a squashfs
 * file, and its name, `oci-…`, is here the SHA-256 of that file, for nobody has made a tar of it.
 */
import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDiskFull } from '@squash/base/errno';
import { AppError } from '@squash/contract/errors';
import { isImageLayer, type LayerDigest, type ModuleName } from '@squash/contract/ids';
import type { Image, ImageCommit, SandboxImage } from '@squash/contract/image';
import type { LayerRef } from '#store/rows.ts';
import { stackOrder } from '../sandbox/stacking.ts';
import type { World } from '../sandbox/world.ts';
import type { ImageLayers, Making } from './image-layers.ts';
import type { LocalSnapshots } from './snapshots.ts';

const pieceBytes = 262_144;
/** Of a squashfs file: how many inodes it has, little-endian. One is the root's. */
const inodesAt = { offset: 4, bytes: 4 };

export interface CommitOptions {
  readonly world: World;
  readonly dataDir: string;
  readonly layers: ImageLayers;
  readonly snapshots: Pick<LocalSnapshots, 'written'>;
}

/** What the files of a sandbox are as layers of an image, lowest first. Disposed, nobody keeps what it names. */
export async function layersOf(
  options: CommitOptions,
  { sandbox: id, snapshot }: Pick<ImageCommit, 'sandbox' | 'snapshot'>,
  signal: AbortSignal,
): ReturnType<ImageLayers['stack']> {
  const written = await options.snapshots.written(id, snapshot);
  const upper = join(options.dataDir, 'tmp', `oci-commit-${randomBytes(6).toString('hex')}`);
  try {
    const digest = await copyOf(written.file, upper, signal);
    const below = stackOrder(written.layers)
      .map((layer) => makingOf(options, layer))
      .toReversed();
    const own = (await isEmpty(upper)) ? [] : [options.layers.making(digest, () => upper, `sandbox ${id}`)];
    return await options.layers.stack([...below, ...own], signal);
  } finally {
    await written.file.close();
    await rm(upper, { force: true });
  }
}

function makingOf({ world, dataDir, layers }: CommitOptions, { module, digest }: LayerRef): Making {
  if (isImageLayer(module)) return { module, make: () => Promise.reject(gone(module)) };
  return layers.making(
    digest,
    async (signal) => {
      const path = join(dataDir, 'tmp', `oci-commit-${randomBytes(6).toString('hex')}`);
      await using file = await world.layers.open(module);
      // Somebody may have put another one in its place since the sandbox was made.
      if ((await copyOf(file, path, signal)) === digest) return path;
      await rm(path, { force: true });
      throw gone(module);
    },
    module,
  );
}

function gone(module: ModuleName): AppError {
  return new AppError(
    'module_not_found',
    `Cannot make an image: module "${module}" is no longer what the sandbox was made of`,
  );
}

/** Its SHA-256. */
async function copyOf(file: FileHandle, path: string, signal: AbortSignal): Promise<LayerDigest> {
  const hash = createHash('sha256');
  try {
    await using copy = await open(path, 'wx', 0o600);
    const piece = Buffer.allocUnsafe(pieceBytes);
    for (let at = 0; ; ) {
      signal.throwIfAborted();
      const { bytesRead } = await file.read(piece, 0, piece.length, at);
      if (bytesRead === 0) break;
      hash.update(piece.subarray(0, bytesRead));
      for (let done = 0; done < bytesRead; )
        done += (await copy.write(piece, done, bytesRead - done, at + done)).bytesWritten;
      at += bytesRead;
    }
  } catch (cause) {
    await rm(path, { force: true });
    if (!isDiskFull(cause)) throw cause;
    throw new AppError('disk_full', 'Cannot make an image: the disk is full', { cause });
  }
  return hash.digest('hex') as LayerDigest;
}

async function isEmpty(squashfs: string): Promise<boolean> {
  await using file = await open(squashfs, 'r');
  const { buffer } = await file.read(Buffer.alloc(inodesAt.bytes), 0, inodesAt.bytes, inodesAt.offset);
  return buffer.readUInt32LE() <= 1;
}

const nothing: Omit<SandboxImage, 'name' | 'id' | 'uid' | 'gid' | 'home'> = {
  env: {},
  user: '',
  workdir: '/',
  entrypoint: [],
  cmd: [],
  labels: {},
};

/** What commands have from the image: what those of the sandbox have, and the changes. */
export function defaultsOf(
  image: SandboxImage | null,
  { env, labels, ...changes }: ImageCommit['changes'],
): Omit<SandboxImage, 'name' | 'id' | 'uid' | 'gid' | 'home'> {
  const before = image ?? nothing;
  return {
    user: changes.user ?? before.user,
    workdir: changes.workdir ?? before.workdir,
    entrypoint: changes.entrypoint ?? before.entrypoint,
    cmd: changes.cmd ?? before.cmd,
    env: { ...before.env, ...env },
    labels: { ...before.labels, ...labels },
  };
}

/** The same for the same image. Other engines give it another one when it is pushed: theirs is that of a configuration with tars in it. */
export function idOf({ architecture, modules, ...image }: Omit<Image, 'id'>): string {
  const { env, user, workdir, entrypoint, cmd, labels } = image;
  const text = JSON.stringify({ architecture, modules, env, user, workdir, entrypoint, cmd, labels });
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}
