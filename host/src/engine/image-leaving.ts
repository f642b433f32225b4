/**
 * Images on their way out: to a registry, to a file, and to one module that is all of an image.
 *
 * A layer is here as a tree in squashfs. Others take it as a tar, so it is made again, always of the same bytes, and its digests are
 * not those that it once came with.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { LayerDigest, ModuleName } from '@squash/contract/ids';
import type { Image, ImagePush } from '@squash/contract/image';
import { limits } from '@squash/contract/limits';
import { ArchiveWriter } from '../oci/archive-out.ts';
import { imageOut } from '../oci/image-out.ts';
import type { ImageTarget } from '../oci/image-source.ts';
import { type BlobNotes, type LayerBlob, type RawLayer, writeBlob, writeRaw } from '../oci/layer-blob.ts';
import { Semaphore } from '../sandbox/mailbox.ts';
import type { World } from '../sandbox/world.ts';
import type { ImageLayers, LayerTool } from './image-layers.ts';
import type { LocalModules, ModuleDetails } from './modules.ts';

export type PushState = Pick<ImagePush, 'layers' | 'layers_done' | 'layers_present' | 'bytes' | 'bytes_done'>;

export interface PushWay {
  readonly target: ImageTarget;
  readonly progress: (change: Partial<PushState>) => void;
}

export interface FlattenWish {
  readonly module: ModuleName;
  readonly replace: boolean;
}

/** The parts of `LaunchClient` that read layers. */
export interface TreeReader {
  treeTar(path: string, signal?: AbortSignal): AsyncIterable<Uint8Array>;
  unpack(
    image: {
      readonly path: string;
      readonly target: string;
      readonly bytesMax: number;
      readonly inodesMax: number;
    },
    giveUp?: AbortSignal,
  ): Promise<void>;
}

interface Options {
  readonly world: World;
  readonly dataDir: string;
  readonly layers: Pick<ImageLayers, 'hold'>;
  readonly tool: TreeReader & LayerTool;
  readonly notes: BlobNotes;
  readonly modules: LocalModules;
}

export class ImageLeaving {
  readonly #options: Options;
  readonly #turns = new Semaphore(limits.imageLayersAtOnceMax);

  constructor(options: Options) {
    this.#options = options;
  }

  /** The digest that it has there. @throws registry_unavailable, registry_denied, image_unsupported, disk_full */
  async push(image: Image, { target, progress }: PushWay, signal: AbortSignal): Promise<string> {
    using _held = this.#options.layers.hold(image.modules);
    await this.#options.world.bringModules(image.modules);
    const state = { layers_done: 0, layers_present: 0, bytes: 0, bytes_done: 0 };
    const stop = new AbortController();
    const sending = { target, signal: AbortSignal.any([signal, stop.signal]) };
    const all = image.modules.map((module) =>
      this.#turns.run(async () => {
        sending.signal.throwIfAborted();
        const blob = await this.#pushLayer(module, sending, {
          begins: (bytes) => progress({ bytes: (state.bytes += bytes) }),
          onBytes: (bytes) => progress({ bytes_done: (state.bytes_done += bytes) }),
          isPresent: () => progress({ layers_present: (state.layers_present += 1) }),
        });
        progress({ layers_done: (state.layers_done += 1) });
        return blob;
      }),
    );
    try {
      const { config, manifest } = imageOut(image, await Promise.all(all));
      await this.#pushSmall(config, sending);
      await target.manifest(manifest.bytes, signal);
      return manifest.digest;
    } catch (error) {
      stop.abort(error);
      await Promise.allSettled(all);
      throw error;
    }
  }

  async #pushLayer(
    module: ModuleName,
    { target, signal }: Sending,
    told: {
      readonly begins: (bytes: number) => void;
      readonly onBytes: (bytes: number) => void;
      readonly isPresent: () => void;
    },
  ): Promise<LayerBlob> {
    const { notes } = this.#options;
    const noted = await notes.find(module);
    if (noted !== undefined && (await target.has(noted.digest, signal))) {
      told.isPresent();
      return noted;
    }
    await using made = await this.#blobFile(module, signal);
    const { blob, path } = made;
    await notes.keep(module, blob);
    if (blob.digest !== noted?.digest && (await target.has(blob.digest, signal))) told.isPresent();
    else {
      told.begins(blob.size);
      await target.blob({ path, ...blob }, told.onBytes, signal);
    }
    return blob;
  }

  async #pushSmall(
    { bytes, digest }: { readonly bytes: Buffer; readonly digest: string },
    { target, signal }: Sending,
  ): Promise<void> {
    if (await target.has(digest, signal)) return;
    const path = this.#place('config');
    try {
      await using file = await open(path, 'wx', 0o600);
      await file.writeFile(bytes);
      await target.blob({ path, digest, size: bytes.length }, () => undefined, signal);
    } finally {
      await rm(path, { force: true });
    }
  }

  async #blobFile(
    module: ModuleName,
    signal: AbortSignal,
  ): Promise<{ readonly blob: LayerBlob; readonly path: string } & AsyncDisposable> {
    const path = this.#place('blob');
    const remove = (): Promise<void> => rm(path, { force: true });
    try {
      await using raw = await this.#raw(module, signal);
      await using file = await open(path, 'wx', 0o600);
      const blob = await writeBlob(raw, { file, at: 0 }, signal);
      return { blob, path, [Symbol.asyncDispose]: remove };
    } catch (error) {
      await remove();
      throw error;
    }
  }

  /** Nobody may remove the tree meanwhile, so it is read at once and compressed afterwards. */
  async #raw(module: ModuleName, signal: AbortSignal): Promise<RawLayer> {
    const { world, tool } = this.#options;
    return await world.layerLock.shared(async () => {
      const digest = await world.layers.ensureModule(module);
      const target = { path: this.#place('raw'), form: 'layer' } as const;
      return await writeRaw(tool.treeTar(`layers/${digest}`, signal), target, signal);
    });
  }

  /** A file that has no name any more, which the caller closes. @throws image_unsupported, disk_full */
  async file(image: Image, signal: AbortSignal): Promise<FileHandle> {
    using _held = this.#options.layers.hold(image.modules);
    await this.#options.world.bringModules(image.modules);
    const path = this.#place('export');
    const file = await open(path, 'wx+', 0o600);
    try {
      await rm(path);
      const archive = new ArchiveWriter(file);
      const blobs: LayerBlob[] = [];
      for (const module of image.modules) {
        const layer = await this.#turns.run(async () => {
          await using raw = await this.#raw(module, signal);
          return await archive.layer((place) => writeBlob(raw, { file, at: place }, signal));
        });
        await this.#options.notes.keep(module, layer);
        blobs.push(layer);
      }
      await archive.end(image, imageOut(image, blobs), blobs);
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** @throws module_exists, module_invalid, disk_full */
  async flatten(image: Image, { module, replace }: FlattenWish, signal: AbortSignal): Promise<ModuleDetails> {
    const { dataDir, modules, tool, world, layers } = this.#options;
    const { layerBytesMax: bytesMax, layerInodesMax: inodesMax } = limits;
    using _held = layers.hold(image.modules);
    await world.bringModules(image.modules);
    const [merged, tree, packed] = ['merged', 'tree', 'packed'].map((what) => this.#place(what)) as [
      string,
      string,
      string,
    ];
    const below = (path: string): string => relative(dataDir, path);
    try {
      await world.layerLock.shared(async () => {
        const digests: LayerDigest[] = [];
        for (const each of image.modules) digests.push(await world.layers.ensureModule(each));
        const lowers = digests.map((digest) => `layers/${digest}`).toReversed();
        await tool.merge({ lowers, path: below(merged), bytesMax }, signal);
      });
      // A merge keeps what deletes below it, for snapshots; of all of an image nothing is to be deleted.
      await tool.unpack({ path: below(merged), target: below(tree), bytesMax, inodesMax }, signal);
      const out = { path: this.#place('raw'), form: 'whole' } as const;
      await using raw = await writeRaw(tool.treeTar(below(tree), signal), out, signal);
      await tool.packTar({ path: below(raw.path), target: below(packed), bytesMax }, signal);
      await modules.import(packed, module, { replace });
    } finally {
      await tool.removeTree(below(tree));
      for (const path of [merged, packed]) await rm(path, { force: true });
    }
    const { digest } = await modules.get(module);
    return await modules.describe(module, {
      schema: 1,
      name: module,
      built_at: new Date(world.clock.wallMs()).toISOString(),
      builder: 'squash module from-oci',
      base: null,
      packages: [],
      squashfs_sha256: digest,
      provenance: {
        image: image.name,
        image_id: image.id,
        ...(image.digest !== null && { image_digest: image.digest }),
      },
    });
  }

  /** Forgets what is known of modules that no image has. */
  async collect(used: ReadonlySet<string>): Promise<void> {
    await this.#options.notes.collect(used);
  }

  #place(what: string): string {
    return join(this.#options.dataDir, 'tmp', `oci-${what}-${randomBytes(6).toString('hex')}`);
  }
}

interface Sending {
  readonly target: ImageTarget;
  readonly signal: AbortSignal;
}
