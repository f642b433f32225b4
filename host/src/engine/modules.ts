/** The modules that sandboxes are stacked from, and adding one to a sandbox that runs. */
import { AppError } from '@squash/contract/errors';
import type { ModuleName, SandboxId } from '@squash/contract/ids';
import type { ModuleInfo } from '../layers/layer-store.ts';
import { activate } from '../sandbox/layering.ts';
import { layersInUse } from '../sandbox/trees.ts';
import type { World } from '../sandbox/world.ts';
import type { Residents } from './residents.ts';

export type { ModuleInfo };

export interface Modules {
  /** Sorted by name. */
  list(): Promise<readonly ModuleInfo[]>;
  /** @throws module_not_found */
  get(name: ModuleName): Promise<ModuleInfo>;
  /** Takes over the file at `hostPath`. @throws module_exists, module_invalid, layer_corrupt, disk_full */
  import(hostPath: string, name: ModuleName, options: { readonly replace: boolean }): Promise<ModuleInfo>;
  /** @throws module_not_found, module_in_use */
  remove(name: ModuleName): Promise<void>;
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

  async get(name: ModuleName): Promise<ModuleInfo> {
    const found = (await this.list()).find((each) => each.name === name);
    if (found !== undefined) return found;
    throw new AppError('module_not_found', `module not found: ${name}`);
  }

  import(hostPath: string, name: ModuleName, options: { readonly replace: boolean }): Promise<ModuleInfo> {
    return this.#world.layerLock.shared(() => this.#world.layers.importModule(hostPath, name, options));
  }

  remove(name: ModuleName): Promise<void> {
    return this.#world.layerLock.exclusive(() =>
      this.#world.layers.removeModule(name, layersInUse(this.#residents.all())),
    );
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
