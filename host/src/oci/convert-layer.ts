/** Runs `layer-worker.ts` on one layer, and has mksquashfs pack what it has written. */
import { randomBytes } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { join, relative } from 'node:path';
import { Worker } from 'node:worker_threads';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { BlobPlace } from './image-source.ts';
import type { LayerDone, LayerRefused, LayerTask } from './layer-worker.ts';
import { invalid } from './manifests.ts';

/** The part of `LaunchClient` that packs. Paths are relative to the data directory. */
export interface TarPacker {
  packTar(
    tar: { readonly path: string; readonly target: string; readonly bytesMax: number },
    giveUp: AbortSignal,
  ): Promise<unknown>;
  removeTree(path: string): Promise<void>;
}

export interface PackedLayer extends AsyncDisposable {
  /** The squashfs file. */
  readonly path: string;
  readonly facts: LayerDone;
}

export interface LayerInput {
  readonly dataDir: string;
  readonly packer: TarPacker;
  readonly blob: BlobPlace;
  readonly digest: string | undefined;
  readonly diffId: string;
}

/** Two at once are to leave a small machine something. */
const threadMbMax = Math.min(limits.imageThreadMbMax, Math.floor(totalmem() / 4 / 1_048_576));

const hexOf = (digest: string): string => digest.replace('sha256:', '');

/** Disposing removes it. @throws image_invalid, image_unsupported, disk_full, launch_failed */
export async function convertLayer(input: LayerInput, signal: AbortSignal): Promise<PackedLayer> {
  const { dataDir, packer, blob } = input;
  const work = join(dataDir, 'tmp', `oci-${randomBytes(6).toString('hex')}`);
  const remove = (): Promise<void> => rm(work, { recursive: true, force: true });
  await mkdir(work, { mode: 0o700 });
  try {
    const facts = await inThread(
      {
        blob: { path: blob.path, offset: blob.offset, length: blob.length },
        blobDigest: input.digest === undefined ? undefined : hexOf(input.digest),
        diffId: hexOf(input.diffId),
        work,
        bounds: {
          entriesMax: limits.imageEntriesMax,
          textBytesMax: limits.imageTextBytesMax,
          bytesMax: limits.layerBytesMax,
          freeBytesMin: limits.imageFreeBytesMin,
        },
      },
      signal,
    );
    const path = join(work, 'squashfs');
    const tar = { path: relative(dataDir, join(work, 'tar')), target: relative(dataDir, path) };
    await packer.packTar({ ...tar, bytesMax: limits.layerBytesMax }, signal);
    await rm(join(work, 'tar'));
    return { path, facts, [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function inThread(task: LayerTask, signal: AbortSignal): Promise<LayerDone> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<LayerDone>();
  const worker = new Worker(new URL('./layer-worker.ts', import.meta.url), {
    workerData: task,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: threadMbMax },
  });
  const stop = (): void => reject(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  worker.on('message', (message: LayerDone | LayerRefused) => {
    if (message.done) resolve(message);
    else reject(refusal(task, message));
  });
  worker.on('error', (error: NodeJS.ErrnoException) =>
    reject(
      error.code === 'ERR_WORKER_OUT_OF_MEMORY'
        ? invalid(`layer sha256:${task.diffId} needs more than ${threadMbMax} MiB to be read`)
        : error,
    ),
  );
  worker.on('exit', () => reject(new AppError('internal', 'Cannot unpack a layer: its thread has ended')));
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', stop);
    await worker.terminate();
  }
}

function refusal({ diffId }: LayerTask, { code, message }: LayerRefused): AppError {
  return new AppError(code, `Cannot use layer sha256:${diffId.slice(0, 12)}… of the image: ${message}`);
}
