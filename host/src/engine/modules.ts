/** The modules that sandboxes are stacked from, and adding one to a sandbox that runs. */
import type { FileHandle } from 'node:fs/promises';
import { AppError } from '@squash/contract/errors';
import { isImageLayer, type LayerDigest, type ModuleName, type SandboxId } from '@squash/contract/ids';
import type { ModuleManifest } from '@squash/contract/module-manifest';
import type {
  FetchedModule,
  ModuleDetails,
  ModuleInfo,
  RemoteModules,
  Sweep,
} from '../layers/layer-store.ts';
import type { DiskSweep } from '../drivers/driver.ts';
import { activate } from '../sandbox/layering.ts';
import { layersInUse, layersStoodOn } from '../sandbox/trees.ts';
import type { World } from '../sandbox/world.ts';
import type { Residents } from './residents.ts';

export type { ModuleDetails, ModuleInfo, Sweep };

export interface Modules {
  /** Sorted by name; those that only the bucket has, too. */
  list(): Promise<readonly ModuleInfo[]>;
  /** @throws module_not_found, layer_corrupt */
  get(name: ModuleName): Promise<ModuleDetails>;
  /** Says what it is made of. @throws module_not_found, invalid_request where the manifest is of another file */
  describe(name: ModuleName, manifest: ModuleManifest): Promise<ModuleDetails>;
  /** Reads all of it again. @throws module_not_found, layer_corrupt */
  verify(name: ModuleName): Promise<ModuleDetails>;
  /** The file, which the caller closes. @throws module_not_found, layer_corrupt */
  open(name: ModuleName): Promise<FileHandle>;
  /** Takes over the file at `hostPath`. @throws module_exists, module_invalid, layer_corrupt, disk_full */
  import(hostPath: string, name: ModuleName, options: { readonly replace: boolean }): Promise<ModuleInfo>;
  /** @throws module_not_found, module_in_use */
  remove(name: ModuleName): Promise<void>;
  /** Removes what can be unpacked again and no sandbox stands on. @throws launcher_unavailable */
  sweep(options: { readonly isDry: boolean }): Promise<Sweep>;
  activate(id: SandboxId, module: ModuleName): Promise<void>;
}

export class LocalModules implements Modules {
  readonly #world: World;
  readonly #residents: Residents;
  readonly #remote: RemoteModules | undefined;
  #images: ImageUse = { has: () => false, collect: async () => undefined };

  constructor(world: World, residents: Residents, remote: RemoteModules | undefined) {
    this.#world = world;
    this.#residents = residents;
    this.#remote = remote;
  }

  /** From now on what images need stays. */
  follow(images: ImageUse): void {
    this.#images = images;
  }

  async list(): Promise<readonly ModuleInfo[]> {
    const [local, remote = []] = await Promise.all([this.#world.layers.modules(), this.#remote?.list()]);
    return union(local, remote);
  }

  /** The same without waiting for anybody. */
  async known(): Promise<readonly ModuleInfo[]> {
    return union(await this.#world.layers.modules(), this.#remote?.known() ?? []);
  }

  /**
   * Those that are not here, from the bucket; one that is not there either is whoever needs it to miss. Before the lock of
   * the layers is taken: a slow bucket must hold up nobody who has all he needs.
   * @throws bucket_unavailable, layer_corrupt, disk_full
   */
  async bring(names: readonly ModuleName[]): Promise<void> {
    const remote = this.#remote;
    if (remote === undefined) return;
    const { layers, layerLock } = this.#world;
    const isHere = await Promise.all(names.map((name) => layers.has(name)));
    const missing = names.filter((_, at) => isHere[at] === false);
    const admit = (name: ModuleName) => (found: FetchedModule) =>
      layerLock.shared(async () => {
        // Somebody may have put one there meanwhile: what is here is what holds.
        if (await layers.has(name)) return;
        await layers.importModule(found.path, name);
        if (found.manifest !== undefined) await layers.putManifest(name, found.manifest);
      });
    for (const name of missing) await remote.fetch(name, admit(name));
  }

  get(name: ModuleName): Promise<ModuleDetails> {
    return this.#world.layers.describe(name);
  }

  async describe(name: ModuleName, manifest: ModuleManifest): Promise<ModuleDetails> {
    const { layerLock, layers } = this.#world;
    const described = await layerLock.shared(() => layers.putManifest(name, manifest));
    this.#remote?.changed(name);
    return described;
  }

  verify(name: ModuleName): Promise<ModuleDetails> {
    return this.#world.layers.verify(name);
  }

  open(name: ModuleName): Promise<FileHandle> {
    return this.#world.layers.open(name);
  }

  async import(
    hostPath: string,
    name: ModuleName,
    options: { readonly replace: boolean },
  ): Promise<ModuleInfo> {
    const { layerLock, layers } = this.#world;
    if (isImageLayer(name))
      throw new AppError(
        'invalid_request',
        `Cannot import module "${name}": that is the name of an image’s layer, whose content it states: import the image`,
      );
    const imported = await layerLock.shared(() => layers.importModule(hostPath, name, options));
    this.#remote?.changed(name, options);
    return imported;
  }

  /** A layer of an image, which says what it is made of. */
  async importLayer(
    hostPath: string,
    name: ModuleName,
    provenance: Readonly<Record<string, string>>,
  ): Promise<void> {
    const { layerLock, layers, clock } = this.#world;
    await layerLock.shared(async () => {
      const { digest } = await layers.importModule(hostPath, name, { replace: true });
      await layers.putManifest(name, {
        schema: 1,
        name,
        built_at: new Date(clock.wallMs()).toISOString(),
        builder: 'squash image',
        base: null,
        packages: [],
        squashfs_sha256: digest,
        provenance: { ...provenance },
      });
    });
    this.#remote?.changed(name);
  }

  async remove(name: ModuleName): Promise<void> {
    if (this.#images.has(name))
      throw new AppError(
        'module_in_use',
        `Cannot remove module "${name}": an image is made of it: remove that, with "squash image rm"`,
      );
    await this.#world.layerLock.exclusive(() =>
      this.#world.layers.removeModule(name, layersInUse(this.#residents.all())),
    );
    this.#remote?.changed(name);
  }

  async sweep({ isDry }: { readonly isDry: boolean }): Promise<Sweep> {
    const { layerLock, layers, files } = this.#world;
    const keep = (): ReadonlySet<LayerDigest> => layersStoodOn(this.#residents.all(), files);
    const { driver } = this.#world;
    const onVms = (): ReadonlySet<LayerDigest> =>
      layersStoodOn(
        [...this.#residents.all()].filter(({ row }) => row.backend === 'vm'),
        files,
      );
    if (isDry) {
      const disks = await driver.sweepDisks(onVms(), isDry);
      return withDisks(await layerLock.shared(() => layers.measureSweep(keep())), disks);
    }
    await this.#images.collect();
    // They are out of everybody's sight at once; what takes long is done when the others may go on.
    const [finish, disks] = await layerLock.exclusive(
      async () => [await layers.sweep(keep()), await driver.sweepDisks(onVms(), isDry)] as const,
    );
    return withDisks(await finish(), disks);
  }

  async activate(id: SandboxId, module: ModuleName): Promise<void> {
    this.#residents.find(id);
    await this.bring([module]);
    await this.#residents.operate(id, (sandbox) => activate(sandbox, module));
  }

  /** Removes trees that nobody uses, behind everybody's back. */
  collect(): void {
    const { layerLock, layers, log } = this.#world;
    this.#images
      .collect()
      .then(() => layerLock.exclusive(() => layers.collect(layersInUse(this.#residents.all()).trees)))
      .then(
        (count) => count > 0 && log.info('layers.collect', { count }),
        // They only take room; the next daemon tries again.
        (error: unknown) => log.warn('layers.collect', { error }),
      );
  }
}

/** What images need, and what of theirs nobody needs any more. */
export interface ImageUse {
  has(module: ModuleName): boolean;
  collect(): Promise<void>;
}

/** A disk that a VM reads a layer from is counted as its tree is. */
function withDisks({ isDry, trees, swept, bytes }: Sweep, disks: DiskSweep): Sweep {
  return { isDry, trees: trees + disks.all, swept: swept + disks.swept, bytes: bytes + disks.bytes };
}

/** What is here hides what is elsewhere under the same name. */
function union(local: readonly ModuleInfo[], remote: readonly ModuleInfo[]): readonly ModuleInfo[] {
  const here = new Set(local.map(({ name }) => name));
  const all = [...local, ...remote.filter(({ name }) => !here.has(name))];
  // Layers of images are listed as images: nobody stacks them one by one.
  return all.filter(({ name }) => !isImageLayer(name)).sort((a, b) => (a.name < b.name ? -1 : 1));
}
