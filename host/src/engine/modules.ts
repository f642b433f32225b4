/** The modules that sandboxes are stacked from, and adding one to a sandbox that runs. */
import type { FileHandle } from 'node:fs/promises';
import type { LayerDigest, ModuleName, SandboxId } from '@squash/contract/ids';
import type { ModuleManifest } from '@squash/contract/module-manifest';
import type { ModuleDetails, ModuleInfo, Sweep } from '../layers/layer-store.ts';
import { activate } from '../sandbox/layering.ts';
import { layersInUse, layersStoodOn } from '../sandbox/trees.ts';
import type { World } from '../sandbox/world.ts';
import type { Residents } from './residents.ts';

export type { ModuleDetails, ModuleInfo, Sweep };

export interface Modules {
  /** Sorted by name. */
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

  constructor(world: World, residents: Residents) {
    this.#world = world;
    this.#residents = residents;
  }

  list(): Promise<readonly ModuleInfo[]> {
    return this.#world.layers.modules();
  }

  get(name: ModuleName): Promise<ModuleDetails> {
    return this.#world.layers.describe(name);
  }

  describe(name: ModuleName, manifest: ModuleManifest): Promise<ModuleDetails> {
    return this.#world.layerLock.shared(() => this.#world.layers.putManifest(name, manifest));
  }

  verify(name: ModuleName): Promise<ModuleDetails> {
    return this.#world.layers.verify(name);
  }

  open(name: ModuleName): Promise<FileHandle> {
    return this.#world.layers.open(name);
  }

  import(hostPath: string, name: ModuleName, options: { readonly replace: boolean }): Promise<ModuleInfo> {
    return this.#world.layerLock.shared(() => this.#world.layers.importModule(hostPath, name, options));
  }

  remove(name: ModuleName): Promise<void> {
    return this.#world.layerLock.exclusive(() =>
      this.#world.layers.removeModule(name, layersInUse(this.#residents.all())),
    );
  }

  async sweep({ isDry }: { readonly isDry: boolean }): Promise<Sweep> {
    const { layerLock, layers, files } = this.#world;
    const keep = (): ReadonlySet<LayerDigest> => layersStoodOn(this.#residents.all(), files);
    if (isDry) return await layerLock.shared(() => layers.measureSweep(keep()));
    // They are out of everybody's sight at once; what takes long is done when the others may go on.
    const finish = await layerLock.exclusive(() => layers.sweep(keep()));
    return await finish();
  }

  activate(id: SandboxId, module: ModuleName): Promise<void> {
    return this.#residents.operate(id, (sandbox) => activate(sandbox, module));
  }

  /** Removes trees that nobody uses, behind everybody's back. */
  collect(): void {
    const { layerLock, layers, log } = this.#world;
    layerLock
      .exclusive(() => layers.collect(layersInUse(this.#residents.all()).trees))
      .then(
        (count) => count > 0 && log.info('layers.collect', { count }),
        // They only take room; the next daemon tries again.
        (error: unknown) => log.warn('layers.collect', { error }),
      );
  }
}
