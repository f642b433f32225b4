/**
 * OCI images: had from a registry or a file, and what a sandbox is made of.
 *
 * Each layer is a module, `oci-<SHA-256 of its tar>`, made once whichever images have it. So snapshots, the bucket, restores and
 * repairs know nothing of images; a record says which modules, in which order, an image is.
 */
import type { FileHandle } from 'node:fs/promises';
import { AppError } from '@squash/contract/errors';
import {
  type Image,
  type ImageCommit,
  type ImageDefaults,
  type ImagePull,
  type ImagePush,
  type SandboxImage,
  isUsable,
} from '@squash/contract/image';
import { type ImageReference, isBuildStep, parseImageReference } from '@squash/contract/image-reference';
import type { ModuleName } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { readArchive } from '../oci/archive.ts';
import type { Registries, SourceImage } from '../oci/image-source.ts';
import type { ImageStore } from '../oci/image-store.ts';
import { imageUserOf } from '../oci/image-user.ts';
import { saidIfFull } from '../oci/layer-blob.ts';
import { ownArchitecture } from '../oci/manifests.ts';
import { Semaphore } from '../sandbox/mailbox.ts';
import type { World } from '../sandbox/world.ts';
import { type CommitOptions, defaultsOf, idOf, layersOf } from './image-commit.ts';
import type { ImageLayers, MadeStack } from './image-layers.ts';
import type { FlattenWish, ImageLeaving, PushState } from './image-leaving.ts';
import { type Progress, Pull, type Taking } from './image-pull.ts';
import type { ModuleDetails } from './modules.ts';
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
  /** Begins or joins the push of an image, and waits for its end or as long as is wished. @throws image_not_found, registry_denied */
  push(reference: ImageReference, wish: PushWish, signal: AbortSignal): Promise<ImagePush>;
  /** As one tar, which the caller closes. @throws image_not_found, image_unsupported, disk_full */
  export(reference: ImageReference, signal: AbortSignal): Promise<FileHandle>;
  /** As one module. @throws image_not_found, module_exists, disk_full */
  flatten(reference: ImageReference, wish: FlattenWish, signal: AbortSignal): Promise<ModuleDetails>;
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

export interface PushWish {
  /** What it is to be called there; undefined: as it is called here. */
  readonly destination: ImageReference | undefined;
  readonly waitMs: number;
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
  readonly leaving: ImageLeaving;
}

type ImagePulling = Pull<Required<Progress>, Image>;
type PullBody = ConstructorParameters<typeof Pull<Required<Progress>, Image>>[0]['body'];
type ImagePushing = Pull<PushState, string>;

export class LocalImages implements Images, AsyncDisposable {
  readonly #options: ImagesOptions;
  readonly #pulls = new Map<string, ImagePulling>();
  readonly #pushes = new Map<string, ImagePushing>();
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  /** Of those that are refused where there are too many. */
  #count = 0;
  readonly #commitTurns = new Semaphore(limits.imageLayersAtOnceMax);

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
    const { state, result } = await this.#pullOf(reference).wait(wish.waitMs, signal);
    return { state: result === null ? 'pulling' : 'ready', name: reference.name, ...state, image: result };
  }

  /** The one that is under way, or a new one. @throws stream_limit */
  #pullOf(reference: ImageReference): ImagePulling {
    const { name } = reference;
    const running = this.#pulls.get(name);
    if (running !== undefined) return running;
    if (isBuildStep(name))
      throw new AppError('image_not_found', `Cannot find image "${name}": a build’s step is in no registry`);
    const body: PullBody = (progress, signal) =>
      this.#counted(async () => {
        const whole = AbortSignal.any([signal, this.#stop.signal]);
        await using found = await this.#options.registries.find(reference, whole);
        return await this.#take(found.image, { name, progress, signal: whole });
      });
    const state = { layers: 0, layers_done: 0, bytes: 0, bytes_done: 0 };
    const pull = new Pull({ name, verb: 'pull', state, body });
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
    const whole = AbortSignal.any([signal, this.#stop.signal]);
    const make = async (): Promise<Image> => {
      // Whoever has asked may be gone when the turn comes.
      whole.throwIfAborted();
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
    };
    // They take a moment each, and several builds are no reason to refuse a step of one: they wait.
    return await this.#awaited(this.#commitTurns.run(make));
  }

  async push(reference: ImageReference, wish: PushWish, signal: AbortSignal): Promise<ImagePush> {
    const { name } = this.get(reference);
    const destination = wish.destination ?? reference;
    const { state, result: digest } = await this.#pushOf(reference, destination).wait(wish.waitMs, signal);
    const how = digest === null ? 'pushing' : 'ready';
    return { state: how, name, destination: destination.name, ...state, digest };
  }

  #pushOf(reference: ImageReference, destination: ImageReference): ImagePushing {
    const key = `${reference.name} ${destination.name}`;
    const running = this.#pushes.get(key);
    if (running !== undefined) return running;
    if (destination.digest !== undefined || isBuildStep(destination.name))
      throw new AppError(
        'invalid_request',
        `Cannot push to "${destination.name}": name a destination with a tag, such as ghcr.io/owner/name:1`,
      );
    const image = this.get(reference);
    const push: ImagePushing = new Pull({
      name: destination.name,
      verb: 'push',
      state: { layers: image.modules.length, layers_done: 0, layers_present: 0, bytes: 0, bytes_done: 0 },
      body: (progress, signal) =>
        this.#counted(async () => {
          const target = await this.#options.registries.target(destination);
          const whole = AbortSignal.any([signal, this.#stop.signal]);
          return await saidIfFull(() => this.#options.leaving.push(image, { target, progress }, whole));
        }),
    });
    this.#pushes.set(key, push);
    push.settled.finally(() => this.#pushes.delete(key)).catch(() => undefined);
    return push;
  }

  async export(reference: ImageReference, signal: AbortSignal): Promise<FileHandle> {
    const whole = AbortSignal.any([signal, this.#stop.signal]);
    return await this.#counted(() =>
      saidIfFull(() => this.#options.leaving.file(this.get(reference), whole)),
    );
  }

  async flatten(reference: ImageReference, wish: FlattenWish, signal: AbortSignal): Promise<ModuleDetails> {
    const whole = AbortSignal.any([signal, this.#stop.signal]);
    return await this.#counted(() =>
      saidIfFull(() => this.#options.leaving.flatten(this.get(reference), wish, whole)),
    );
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
    return stackOf(present ?? (await this.#pullOf(reference).result()));
  }

  /** Removes layers that no image, sandbox or snapshot needs. */
  async collect(): Promise<void> {
    await this.#options.layers.collect(() => this.#modules());
    await this.#options.leaving.collect(this.#modules());
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
    if (this.#count >= limits.imagePullsAtOnceMax)
      throw new AppError('stream_limit', `${this.#count} images are being taken in or sent: try again later`);
    this.#count += 1;
    try {
      return await this.#awaited(body());
    } finally {
      this.#count -= 1;
    }
  }

  /** The daemon's end waits for it. */
  async #awaited<T>(running: Promise<T>): Promise<T> {
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
    if (!isUsable(described))
      throw new AppError(
        'image_invalid',
        `Cannot keep image "${facts.name}": its variables, its user or its directories are none that a command can have`,
      );
    const image: Image = { ...described, id: facts.id ?? idOf(described) };
    const before = store.find(image.name);
    await store.keep(image);
    world.log.info('image.kept', { image: image.name, layers: image.layers, bytes: image.size_bytes });
    if (before?.modules.some((module) => !image.modules.includes(module)) === true) await this.collect();
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
