/** Saving what was written in a sandbox, and going back to it. */
import type { SandboxId, SnapshotLabel } from '@squash/contract/ids';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { restore, snapshot, type Taken } from '../sandbox/layering.ts';
import type { Residents } from './residents.ts';

export interface Snapshots {
  /** Default label: `YYYYMMDD-HHMMSS`, UTC. */
  take(id: SandboxId, label?: SnapshotLabel): Promise<Taken>;
  restore(id: SandboxId, label: SnapshotLabel): Promise<SandboxInfo>;
}

export class LocalSnapshots implements Snapshots {
  readonly #residents: Residents;

  constructor(residents: Residents) {
    this.#residents = residents;
  }

  take(id: SandboxId, label?: SnapshotLabel): Promise<Taken> {
    return this.#residents.operate(id, (sandbox) => snapshot(sandbox, label));
  }

  restore(id: SandboxId, label: SnapshotLabel): Promise<SandboxInfo> {
    return this.#residents.operate(id, async (sandbox) => {
      await restore(sandbox, label);
      return sandbox.info();
    });
  }
}
