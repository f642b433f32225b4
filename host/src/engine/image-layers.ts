/**
 * The layers of images as modules: each made once, equal ones found again, deep images' lowest merged.
 */
import { createHash, randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { isImageLayer, type LayerDigest, type ModuleName, moduleNameSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { convertLayer, type TarPacker } from '../oci/convert-layer.ts';
import type { SourceImage, SourceLayer } from '../oci/image-source.ts';
import { Semaphore } from '../sandbox/mailbox.ts';
import { layersInUse } from '../sandbox/trees.ts';
import type { World } from '../sandbox/world.ts';
import type { Taking } from './image-pull.ts';
import type { Residents } from './residents.ts';

/** The parts of `LaunchClient` that make images. */
export interface LayerTool extends TarPacker {
  merge(
    layers: { readonly lowers: readonly string[]; readonly path: string; readonly bytesMax: number },
    giveUp: AbortSignal,
  ): Promise<unknown>;
}

/** One layer of the stack that an image is here. */
export interface MadeLayer {
  readonly module: ModuleName;
  readonly digest: LayerDigest;
  /** Of its squashfs file. */
  readonly bytes: number;
  readonly devices: number;
  /** It hides all that is below it. */
  readonly isRootOpaque: boolean;
}

/** Until it is disposed nobody removes what it names. */
export interface MadeStack extends AsyncDisposable {
  /** Lowest first. */
  readonly stack: readonly MadeLayer[];
}

interface Options {
  readonly world: World;
  readonly residents: Residents;
  readonly dataDir: string;
  readonly tool: LayerTool;
  /** Takes a file over as a module. */
  readonly importLayer: (
    path: string,
    module: ModuleName,
    provenance: Readonly<Record<string, string>>,
  ) => Promise<void>;
}

/** A layer, and how it comes to be where it is not here. */
export interface Making {
  readonly module: ModuleName;
  readonly make: (giveUp: AbortSignal) => Promise<void>;
}

const devicesKey = 'oci_devices_left_out';
const opaqueKey = 'oci_root_opaque';
const mergedKey = 'oci_merged';
const committedKey = 'oci_committed';

export class ImageLayers {
  readonly #options: Options;
  readonly #turns = new Semaphore(limits.imageLayersAtOnceMax);
  readonly #making = new Map<ModuleName, Promise<void>>();
  /** What images that are being made need, and how many of them. */
  readonly #pinned = new Map<ModuleName, number>();

  constructor(options: Options) {
    this.#options = options;
  }

  /** @throws image_invalid, image_unsupported, disk_full, layer_corrupt, launch_failed */
  async make(source: SourceImage, taking: Taking): Promise<MadeStack> {
    const stop = new AbortController();
    const signal = AbortSignal.any([taking.signal, stop.signal]);
    const pins = new DisposableStack();
    // One that comes twice counts where it lies highest: there it says again all that it has said below.
    const layers = source.layers.filter(
      ({ diffId }, at, all) => all.findLastIndex((each) => each.diffId === diffId) === at,
    );
    try {
      const made = await this.#makeAll(layers, { ...taking, signal }, { pins, stop });
      const seen = made.slice(
        Math.max(
          0,
          made.findLastIndex(({ isRootOpaque }) => isRootOpaque),
        ),
      );
      const stack = await this.#shallow(seen, signal, pins);
      return { stack, [Symbol.asyncDispose]: async () => pins.dispose() };
    } catch (error) {
      pins.dispose();
      throw error;
    }
  }

  /** Of a squashfs file that `file` has in `tmp/`; it is taken over. `of` is told in the manifest. */
  making(digest: LayerDigest, file: (signal: AbortSignal) => string | Promise<string>, of: string): Making {
    const module = moduleOf(digest);
    const make = async (signal: AbortSignal): Promise<void> => {
      const path = await file(signal);
      try {
        await this.#options.importLayer(path, module, { [committedKey]: of, [devicesKey]: '0' });
      } finally {
        await rm(path, { force: true });
      }
    };
    return { module, make };
  }

  /** A stack of layers, lowest first. @throws as `make` */
  async stack(makings: readonly Making[], signal: AbortSignal): Promise<MadeStack> {
    const pins = new DisposableStack();
    try {
      const made: MadeLayer[] = [];
      for (const making of makings.filter(isLastOfItsName)) {
        pins.use(this.#pin(making.module));
        made.push(await this.#layer(making, signal));
      }
      const stack = await this.#shallow(made, signal, pins);
      return { stack, [Symbol.asyncDispose]: async () => pins.dispose() };
    } catch (error) {
      pins.dispose();
      throw error;
    }
  }

  async #makeAll(
    layers: readonly SourceLayer[],
    { progress, signal }: Taking,
    { pins, stop }: { readonly pins: DisposableStack; readonly stop: AbortController },
  ): Promise<readonly MadeLayer[]> {
    let bytes = 0;
    let bytesDone = 0;
    let done = 0;
    const missing: SourceLayer[] = [];
    for (const layer of layers) {
      const module = moduleOf(layer.diffId);
      pins.use(this.#pin(module));
      if (!(await this.#options.world.layers.has(module))) missing.push(layer);
    }
    for (const { size } of missing) bytes += size;
    progress({ layers: layers.length, bytes });
    const onBytes = (more: number): void => progress({ bytes_done: (bytesDone += more) });
    const all = layers.map(async (layer): Promise<MadeLayer> => {
      const made = await this.#layer(
        { module: moduleOf(layer.diffId), make: (giveUp) => this.#convert(layer, onBytes, giveUp) },
        signal,
      );
      progress({ layers_done: (done += 1) });
      return made;
    });
    try {
      return await Promise.all(all);
    } catch (error) {
      // What the others read from goes when this has ended.
      stop.abort(error);
      await Promise.allSettled(all);
      throw error;
    }
  }

  /** Makes it where it is not here, or not sound. */
  async #layer(making: Making, signal: AbortSignal): Promise<MadeLayer> {
    const { world } = this.#options;
    const { module } = making;
    for (let attempt = 0; ; attempt += 1) {
      await this.#made(making, signal);
      try {
        return await this.#look(module);
      } catch (error) {
        if (attempt > 0 || !(error instanceof AppError) || error.code !== 'layer_corrupt') throw error;
        // Whoever stands on the old one has its tree.
        await world.layerLock.exclusive(() =>
          world.layers.removeModule(module, { modules: [], trees: new Set() }),
        );
      }
    }
  }

  async #made({ module, make }: Making, signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const isHere = await this.#options.world.layers.has(module);
      const running = this.#making.get(module);
      if (isHere && running === undefined) return;
      if (running === undefined) {
        const work = this.#turns.run(() => make(signal)).finally(() => this.#making.delete(module));
        this.#making.set(module, work);
        return await work;
      }
      // Whoever makes it for another image may give up: then it is made here.
      await running.catch(() => undefined);
    }
  }

  async #look(module: ModuleName): Promise<MadeLayer> {
    const { world } = this.#options;
    const digest = await world.layerLock.shared(() => world.layers.ensureModule(module));
    const { size, manifest } = await world.layers.describe(module);
    const { [devicesKey]: devices, [mergedKey]: merged, [opaqueKey]: opaque } = manifest?.provenance ?? {};
    // A daemon was killed before it said so, or the bucket has the file alone: whether it hides what is below nobody knows.
    if (devices === undefined && merged === undefined)
      throw new AppError('layer_corrupt', `Cannot use module "${module}": nothing says what it is made of`);
    return { module, digest, bytes: size, devices: Number(devices ?? 0), isRootOpaque: opaque === 'yes' };
  }

  async #convert(layer: SourceLayer, onBytes: (bytes: number) => void, signal: AbortSignal): Promise<void> {
    const { dataDir, tool, importLayer } = this.#options;
    const { diffId, digest } = layer;
    await using blob = await layer.open(signal, onBytes);
    await using packed = await convertLayer({ dataDir, packer: tool, blob, digest, diffId }, signal);
    await importLayer(packed.path, moduleOf(diffId), {
      oci_diff_id: diffId,
      [devicesKey]: `${packed.facts.devices}`,
      ...(packed.facts.isRootOpaque && { [opaqueKey]: 'yes' }),
    });
  }

  /** The lowest as one, where there are too many. */
  async #shallow(
    made: readonly MadeLayer[],
    signal: AbortSignal,
    pins: DisposableStack,
  ): Promise<readonly MadeLayer[]> {
    if (made.length <= limits.imageLayersMax) return made;
    const lowest = made.slice(0, made.length - limits.imageLayersMax + 1);
    const module = moduleOf(chainId(lowest.map((layer) => `sha256:${layer.module.slice('oci-'.length)}`)));
    pins.use(this.#pin(module));
    const merged = await this.#layer(
      { module, make: (giveUp) => this.#merge(lowest, module, giveUp) },
      signal,
    );
    return [
      { ...merged, devices: lowest.reduce((sum, { devices }) => sum + devices, 0) },
      ...made.slice(lowest.length),
    ];
  }

  async #merge(lowest: readonly MadeLayer[], module: ModuleName, signal: AbortSignal): Promise<void> {
    const { dataDir, tool, importLayer, world } = this.#options;
    const path = join('tmp', `oci-merged-${randomBytes(6).toString('hex')}`);
    try {
      await world.layerLock.shared(async () => {
        for (const each of lowest) await world.layers.ensureModule(each.module);
        const lowers = lowest.map(({ digest }) => `layers/${digest}`).toReversed();
        await tool.merge({ lowers, path, bytesMax: limits.layerBytesMax }, signal);
      });
      await importLayer(join(dataDir, path), module, { [mergedKey]: `${lowest.length} layers` });
    } finally {
      await rm(join(dataDir, path), { force: true });
    }
  }

  /** Removes modules of layers that neither an image nor a sandbox needs. Behind everybody's back nothing is to be made of them. */
  async collect(ofImages: () => ReadonlySet<ModuleName>): Promise<void> {
    const { world, residents } = this.#options;
    await world.layerLock.exclusive(async () => {
      const use = layersInUse(residents.all());
      const used = new Set([
        ...ofImages(),
        ...use.modules.map(({ module }) => module),
        ...this.#pinned.keys(),
      ]);
      for (const { name } of await world.layers.modules()) {
        if (!isImageLayer(name) || used.has(name)) continue;
        await world.layers.removeModule(name, use).catch((error: unknown) => {
          world.log.warn('image.layer', { module: name, error });
        });
      }
    });
  }

  #pin(module: ModuleName): Disposable {
    this.#pinned.set(module, (this.#pinned.get(module) ?? 0) + 1);
    return {
      [Symbol.dispose]: () => {
        const left = (this.#pinned.get(module) ?? 1) - 1;
        if (left === 0) this.#pinned.delete(module);
        else this.#pinned.set(module, left);
      },
    };
  }
}

/** One that comes twice counts where it lies highest: there it says again all that it has said below. */
function isLastOfItsName({ module }: Making, at: number, all: readonly Making[]): boolean {
  return all.findLastIndex((each) => each.module === module) === at;
}

function moduleOf(diffId: string): ModuleName {
  return moduleNameSchema.parse(`oci-${diffId.replace('sha256:', '')}`);
}

/** What a chain of layers is called in OCI's words: each layer's digest with that of all below it. */
function chainId(diffIds: readonly string[]): string {
  return diffIds.reduce(
    (below, own) => `sha256:${createHash('sha256').update(`${below} ${own}`).digest('hex')}`,
  );
}
