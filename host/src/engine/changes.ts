/** What sandboxes have written over directories of the host. */
import type { ChangeApplied, ChangeApply, ChangePage } from '@squash/contract/changes';
import type { SandboxId } from '@squash/contract/ids';
import { applyChanges, type ChangeQuery, listChanges, readChange } from '../sandbox/changes.ts';
import { type Residents, whileItStays } from './residents.ts';

export interface Changes {
  /** By path below the place. @throws host_root_unsupported, host_path_refused */
  list(id: SandboxId, query: ChangeQuery): Promise<ChangePage>;
  /** @throws as `list` does, and file_not_found, not_a_file */
  read(id: SandboxId, name: { readonly place: string; readonly path: string }): Promise<Uint8Array>;
  /** Names of the list, in this order. @throws as `list` does, and disk_full */
  apply(id: SandboxId, wish: ChangeApply): Promise<ChangeApplied>;
}

export class LocalChanges implements Changes {
  readonly #residents: Residents;

  constructor(residents: Residents) {
    this.#residents = residents;
  }

  async list(id: SandboxId, query: ChangeQuery): Promise<ChangePage> {
    const sandbox = this.#residents.find(id);
    return await whileItStays(sandbox, listChanges(sandbox, query));
  }

  async read(id: SandboxId, name: { readonly place: string; readonly path: string }): Promise<Uint8Array> {
    const sandbox = this.#residents.find(id);
    return await whileItStays(sandbox, readChange(sandbox, name));
  }

  /** In its turn: a sandbox that is removed meanwhile would take away what is read. */
  async apply(id: SandboxId, wish: ChangeApply): Promise<ChangeApplied> {
    return await this.#residents.operate(id, (sandbox) => applyChanges(sandbox, wish));
  }
}
