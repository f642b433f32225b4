/**
 * OCI images: had from a registry or a file, and what a sandbox is made of.
 *
 * Each layer is a module, `oci-<SHA-256 of its tar>`, made once whichever images have it. So snapshots, the bucket, restores and
 * repairs know nothing of images; a record says which modules, in which order, an image is.
 */
import { AppError } from '@squash/contract/errors';
import type { Image, ImageCommit, ImageDefaults, ImagePull, SandboxImage } from '@squash/contract/image';
import { type ImageReference, isBuildStep, parseImageReference } from '@squash/contract/image-reference';
import type { ModuleName } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { readArchive } from '../oci/archive.ts';
import type { Registries, SourceImage } from '../oci/image-source.ts';
import type { ImageStore } from '../oci/image-store.ts';
import { imageUserOf } from '../oci/image-user.ts';
import { ownArchitecture } from '../oci/manifests.ts';
import type { World } from '../sandbox/world.ts';
import { type CommitOptions, defaultsOf, idOf, layersOf } from './image-commit.ts';
import type { ImageLayers, MadeStack } from './image-layers.ts';
import { Pull, type Taking } from './image-pull.ts';
import type { Residents } from './residents.ts';

export interface Images {
  /** Sorted by name. */
  list(wish: { readonly withSteps: boolean }): readonly Image[];
  /** @throws image_not_found */
  get(reference: ImageReference): Image;
  /** Begins or joins the pull of an image, and waits for its end or as long as is wished. */
  pull(reference: ImageReference, wish: PullWish, signal: AbortSignal): Promise<ImagePull>;
  /** From the file at `hostPath`. @throws image_invalid, image_unsupported, disk_full */
  import(hostPath: string, wish: ImportWish, signal: AbortSignal): Promise<Image>;
  /** Of a sandbox or a snapshot of it. @throws sandbox_not_found, snapshot_not_found, disk_full */
  commit(wish: ImageCommit, signal: AbortSignal): Promise<Image>;
  /** @throws image_not_found */
  remove(reference: ImageReference): Promise<void>;
  /** What a new sandbox is made of. @throws image_not_found where it is not here and may not be pulled */
  stackFor(reference: ImageReference, mayPull: boolean): Promise<ImageStack>;
}

export interface PullWish {
  readonly waitMs: number;
  /** The registry is asked even where an image of this name is here. */
  readonly isAgain: boolean;
}

export interface ImportWish {
  readonly name: ImageReference | undefined;
  readonly pick: string | undefined;
}

export interface ImageStack {
  /** Lowest first. */
  readonly modules: readonly ModuleName[];
  readonly image: SandboxImage;
}

export interface ImagesOptions {
  readonly world: World;
  readonly store: ImageStore;
  readonly layers: ImageLayers;
  readonly registries: Registries;
  readonly residents: Pick<Residents, 'find'>;
  readonly commits: Pick<CommitOptions, 'dataDir' | 'snapshots'>;
}

export class LocalImages implements Images, AsyncDisposable {
  readonly #options: ImagesOptions;
  readonly #pulls = new Map<string, Pull>();
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<unknown>>();

  constructor(options: ImagesOptions) {
    this.#options = options;
  }

  list({ withSteps }: { readonly withSteps: boolean }): readonly Image[] {
    return this.#options.store.all().filter(({ name }) => withSteps || !isBuildStep(name));
  }

  get({ name }: ImageReference): Image {
    const found = this.#options.store.find(name);
    if (found !== undefined) return found;
    throw new AppError('image_not_found', `Cannot find image "${name}"`);
  }

  async pull(reference: ImageReference, wish: PullWish, signal: AbortSignal): Promise<ImagePull> {
    const present = this.#options.store.find(reference.name);
    if (present !== undefined && !wish.isAgain && !this.#pulls.has(reference.name)) return readyPull(present);
    return await this.#pullOf(reference).wait(wish.waitMs, signal);
  }

  /** The one that is under way, or a new one. @throws stream_limit */
  #pullOf(reference: ImageReference): Pull {
    const { name } = reference;
    const running = this.#pulls.get(name);
    if (running !== undefined) return running;
    if (isBuildStep(name))
      throw new AppError('image_not_found', `Cannot find image "${name}": a build’s step is in no registry`);
    const pull = new Pull(name, (progress, signal) =>
      this.#counted(async () => {
        const whole = AbortSignal.any([signal, this.#stop.signal]);
        await using found = await this.#options.registries.find(reference, whole);
        return await this.#take(found.image, { name, progress, signal: whole });
      }),
    );
    this.#pulls.set(name, pull);
    pull.settled.finally(() => this.#pulls.delete(name)).catch(() => undefined);
    return pull;
  }

  async import(hostPath: string, { name, pick }: ImportWish, signal: AbortSignal): Promise<Image> {
    return await this.#counted(async () => {
      const { image, names } = readArchive(hostPath, pick);
      const named = name ?? names.map(parseImageReference).find((each) => each !== undefined);
      if (named === undefined)
        throw new AppError('invalid_request', 'The archive does not say what its image is called: name it');
      const whole = AbortSignal.any([signal, this.#stop.signal]);
      return await this.#take(image, { name: named.name, progress: () => undefined, signal: whole });
    });
  }

  async commit(wish: ImageCommit, signal: AbortSignal): Promise<Image> {
    const { commits, layers, residents, world } = this.#options;
    const { row } = residents.find(wish.sandbox);
    return await this.#counted(async () => {
      const whole = AbortSignal.any([signal, this.#stop.signal]);
      await using made = await layersOf({ ...commits, layers, world }, wish, whole);
      const facts = {
        name: wish.name.name,
        digest: null,
        architecture: ownArchitecture,
        created_at: new Date(world.clock.wallMs()).toISOString(),
        source: 'sandbox' as const,
        layers: made.stack.length,
      };
      return await this.#keep(facts, made, defaultsOf(row.image, wish.changes));
    });
  }

  async remove(reference: ImageReference): Promise<void> {
    this.#pulls.get(reference.name)?.stop();
    const { name } = this.get(reference);
    await this.#options.store.remove(name);
    await this.collect();
  }

  async stackFor(reference: ImageReference, mayPull: boolean): Promise<ImageStack> {
    const present = this.#options.store.find(reference.name);
    if (present === undefined && !mayPull)
      throw new AppError(
        'image_not_found',
        `Cannot find image "${reference.name}": it is not here, and only an operator pulls one`,
      );
    return stackOf(present ?? (await this.#pullOf(reference).image()));
  }

  /** Removes layers that no image, sandbox or snapshot needs. */
  async collect(): Promise<void> {
    await this.#options.layers.collect(() => this.#modules());
  }

  /** Whether some image is made of it. */
  has(module: ModuleName): boolean {
    return this.#modules().has(module);
  }

  #modules(): ReadonlySet<ModuleName> {
    return new Set(this.#options.store.all().flatMap(({ modules }) => modules));
  }

  /** As one of those that may be under way at once, which the daemon's end waits for. @throws stream_limit */
  async #counted<T>(body: () => Promise<T>): Promise<T> {
    if (this.#running.size >= limits.imagePullsAtOnceMax)
      throw new AppError('stream_limit', `${this.#running.size} images are being taken in: try again later`);
    const running = body();
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  async #take(source: SourceImage, taking: Taking): Promise<Image> {
    await using made = await this.#options.layers.make(source, taking);
    const { id, architecture, createdAt, defaults, diffIds } = source.config;
    const { digest } = source;
    const facts = { name: taking.name, id, digest, architecture, created_at: createdAt };
    return await this.#keep({ ...facts, source: source.source, layers: diffIds.length }, made, defaults);
  }

  async #keep(
    facts: Pick<Image, 'name' | 'digest' | 'architecture' | 'created_at' | 'source' | 'layers'> & {
      readonly id?: string;
    },
    { stack }: MadeStack,
    defaults: Omit<ImageDefaults, 'uid' | 'gid' | 'home'>,
  ): Promise<Image> {
    const { store, world } = this.#options;
    const trees = stack.map(({ digest }) => world.files.layer(digest)).toReversed();
    const described = {
      ...facts,
      pulled_at: new Date(world.clock.wallMs()).toISOString(),
      size_bytes: stack.reduce((sum, { bytes }) => sum + bytes, 0),
      modules: stack.map(({ module }) => module),
      devices_left_out: stack.reduce((sum, { devices }) => sum + devices, 0),
      ...defaults,
      ...imageUserOf(defaults.user, trees),
    };
    const image: Image = { ...described, id: facts.id ?? idOf(described) };
    await store.keep(image);
    world.log.info('image.kept', { image: image.name, layers: image.layers, bytes: image.size_bytes });
    return image;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new AppError('shutting_down', 'Cannot take an image in: the daemon stops'));
    await Promise.allSettled(this.#running);
  }
}

function readyPull(image: Image): ImagePull {
  const { name, layers } = image;
  return { state: 'ready', name, layers, layers_done: layers, bytes: 0, bytes_done: 0, image };
}

function stackOf(image: Image): ImageStack {
  const { name, id, env, user, uid, gid, home, workdir, entrypoint, cmd, labels } = image;
  return {
    modules: image.modules,
    image: { name, id, env, user, uid, gid, home, workdir, entrypoint, cmd, labels },
  };
}
