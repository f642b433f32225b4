/** Saving what was written in a sandbox, going back to it, and the snapshots as things of their own. */
import { randomBytes } from 'node:crypto';
import { type FileHandle, stat } from 'node:fs/promises';
import { rfc3339 } from '@squash/base/clock';
import { type SandboxId, type SnapshotLabel, snapshotLabelSchema } from '@squash/contract/ids';
import type { LabelFilter } from '@squash/contract/labels';
import type {
  DiffPage,
  SnapshotDetails,
  SnapshotPage,
  SnapshotPatch,
  SnapshotTaken,
} from '@squash/contract/native-snapshot';
import type { LayerRef } from '#store/rows.ts';
import { askDiff, type DiffQuery, diffPage } from '../sandbox/diff.ts';
import { hasLabels } from '../sandbox/labels.ts';
import { restore, type RestoreWish, snapshot, type SnapshotWish } from '../sandbox/layering.ts';
import type { RemoteSnapshot, RemoteSnapshots } from '../sandbox/remote-snapshots.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import {
  changeSnapshot,
  findSnapshot,
  getSnapshot,
  listSnapshots,
  type Opening,
  openSnapshot,
  removeSnapshot,
} from '../sandbox/snapshots.ts';
import { findFiles, takeInSnapshot, type TakenIn } from '../sandbox/snapshot-intake.ts';
import type { Admission } from './admission.ts';
import type { LocalModules } from './modules.ts';
import { cutPage, type PageQuery } from './page.ts';
import type { Quotas } from './quotas.ts';
import { type Residents, whileItStays } from './residents.ts';

export interface SnapshotQuery extends PageQuery {
  readonly label?: LabelFilter | undefined;
}

export interface Snapshots {
  take(id: SandboxId, wish: SnapshotWish): Promise<SnapshotTaken>;
  restore(id: SandboxId, wish: RestoreWish): Promise<void>;
  /** Oldest first. @throws invalid_request for a cursor that is none */
  page(id: SandboxId, query: SnapshotQuery): Promise<SnapshotPage>;
  get(id: SandboxId, label: SnapshotLabel): Promise<SnapshotDetails>;
  update(id: SandboxId, label: SnapshotLabel, patch: SnapshotPatch): Promise<SnapshotDetails>;
  remove(id: SandboxId, label: SnapshotLabel): Promise<void>;
  /** The whole of it as one squashfs file, which is the caller's to close. */
  open(id: SandboxId, label: SnapshotLabel): Promise<FileHandle>;
  /** Between the snapshot and another, its modules, or the sandbox as it is now. @throws snapshot_not_found, invalid_request */
  diff(id: SandboxId, label: SnapshotLabel, query: DiffQuery): Promise<DiffPage>;
  /** Takes over the file at `hostPath`. @throws snapshot_exists, snapshot_invalid, disk_full */
  takeIn(id: SandboxId, label: SnapshotLabel, hostPath: string): Promise<SnapshotDetails>;
}

export interface Written {
  readonly file: FileHandle;
  /** What it lies on. */
  readonly layers: readonly LayerRef[];
}

export interface SnapshotsOptions {
  readonly remote: RemoteSnapshots | undefined;
  readonly residents: Residents;
  readonly modules: LocalModules;
  readonly admission: Admission;
  readonly quotas: Quotas;
}

export class LocalSnapshots implements Snapshots {
  readonly #remote: RemoteSnapshots | undefined;
  readonly #residents: Residents;
  readonly #modules: LocalModules;
  readonly #admission: Admission;
  readonly #quotas: Quotas;

  constructor({ remote, residents, modules, admission, quotas }: SnapshotsOptions) {
    this.#remote = remote;
    this.#residents = residents;
    this.#modules = modules;
    this.#admission = admission;
    this.#quotas = quotas;
  }

  take(id: SandboxId, wish: SnapshotWish): Promise<SnapshotTaken> {
    return this.#residents.operate(id, async (sandbox) => {
      const { owner, limits } = sandbox.row;
      // How large it becomes shows when it is made: it is refused where there is no room at all, or none for a whole memory.
      const bytes = wish.memory === true ? limits.memoryBytesMax : 1;
      using _room = this.#quotas.holdDisk(`take a snapshot of sandbox "${id}"`, owner, bytes);
      this.#admission.checkAgain('take a snapshot of', sandbox);
      const { label, pauseMs } = await snapshot(sandbox, wish);
      return { ...getSnapshot(sandbox, label), pause_ms: pauseMs };
    });
  }

  /** Resolves when the sandbox goes on. Its turn lasts until what was written before is removed. */
  async restore(id: SandboxId, wish: RestoreWish): Promise<void> {
    await this.bring(id, wish.label);
    const restored = Promise.withResolvers<void>();
    const turn = this.#residents.operate(id, async (sandbox) => {
      this.#admission.checkAgain('restore', sandbox);
      await restore(sandbox, wish, restored.resolve);
    });
    // A failure behind the answer leaves its intent in the row, which the next start completes.
    turn.then(restored.resolve, restored.reject);
    await restored.promise;
  }

  /**
   * One that is not here, from the bucket; one that is not there either is whoever needs it to miss. Takes the sandbox's turn
   * only to take it in. @throws bucket_unavailable, layer_corrupt, quota_exceeded, disk_full
   */
  async bring(id: SandboxId, label: SnapshotLabel): Promise<void> {
    const { row } = this.#residents.find(id);
    if (this.#remote === undefined || this.#isHere(id, label)) return;
    await this.#look(id);
    if (this.#isHere(id, label)) return;
    await this.#remote.fetch({ id, owner: row.owner, label }, (found) =>
      this.#residents.operate(id, async (sandbox) => {
        // Somebody may have taken one of this label meanwhile: what is here is what holds.
        if (this.#isHere(id, label)) return;
        await this.#takeIn(sandbox, label, found);
      }),
    );
  }

  #isHere(id: SandboxId, label: SnapshotLabel): boolean {
    return this.#residents.find(id).snapshots.some((each) => each.label === label);
  }

  async page(id: SandboxId, query: SnapshotQuery): Promise<SnapshotPage> {
    await this.#look(id);
    const all = await this.#all(id);
    const found = all.filter(({ labels }) => hasLabels(labels, query.label));
    return cutPage(found, query, {
      placeOf: (each) => ({ createdMs: Date.parse(each.created_at), id: each.label }),
    });
  }

  update(id: SandboxId, label: SnapshotLabel, patch: SnapshotPatch): Promise<SnapshotDetails> {
    return this.#residents.operate(id, (sandbox) => changeSnapshot(sandbox, label, patch));
  }

  async get(id: SandboxId, label: SnapshotLabel): Promise<SnapshotDetails> {
    await this.#look(id);
    if (this.#isHere(id, label)) return getSnapshot(this.#residents.find(id), label);
    const remote = (await this.#all(id)).find((each) => each.label === label);
    return remote ?? getSnapshot(this.#residents.find(id), label);
  }

  /** Here and in the bucket, oldest first. */
  async #all(id: SandboxId): Promise<readonly SnapshotDetails[]> {
    const { owner } = this.#residents.find(id).row;
    const remote = (await this.#remote?.list({ id, owner })) ?? [];
    const local = listSnapshots(this.#residents.find(id));
    const here = new Set(local.map(({ label }) => label));
    const elsewhere = remote.filter(({ label }) => !here.has(label)).map(remoteDetails);
    if (elsewhere.length === 0) return local;
    return [...local, ...elsewhere].sort((a, b) => Date.parse(a.created_at) - Date.parse(b.created_at));
  }

  async remove(id: SandboxId, label: SnapshotLabel): Promise<void> {
    await this.#residents.operate(id, (sandbox) => removeSnapshot(sandbox, label));
    this.#modules.collect();
  }

  async open(id: SandboxId, label: SnapshotLabel): Promise<FileHandle> {
    const sandbox = this.#residents.find(id);
    const { file } = await this.#residents.operate(id, () => openSnapshot(sandbox, label));
    return await whileItStays(sandbox, file);
  }

  /**
   * What is written in a sandbox on its modules, as one file that is the caller's to close. No snapshot of it stays, nor is any pushed.
   * @throws sandbox_not_ready, snapshot_not_found, quota_exceeded, disk_full
   */
  async written(id: SandboxId, label: SnapshotLabel | undefined): Promise<Written> {
    if (label !== undefined) await this.bring(id, label);
    const sandbox = this.#residents.find(id);
    const { opening, layers } = await this.#residents.operate(id, async () => {
      if (label !== undefined) return await opened(sandbox, label);
      this.#admission.checkAgain('read', sandbox);
      const own = snapshotLabelSchema.parse(`written-${randomBytes(4).toString('hex')}`);
      await snapshot(sandbox, { label: own });
      try {
        return await opened(sandbox, own);
      } finally {
        await removeSnapshot(sandbox, own);
      }
    });
    const file = await whileItStays(sandbox, opening.file);
    this.#modules.collect();
    return { file, layers };
  }

  async diff(id: SandboxId, label: SnapshotLabel, query: DiffQuery): Promise<DiffPage> {
    const sandbox = this.#residents.find(id);
    const asking = await this.#residents.operate(id, () => askDiff(sandbox, label, query));
    return await whileItStays(sandbox, diffPage(asking));
  }

  takeIn(id: SandboxId, label: SnapshotLabel, hostPath: string): Promise<SnapshotDetails> {
    return this.#residents.operate(id, (sandbox) => this.#takeIn(sandbox, label, { path: hostPath }));
  }

  async #takeIn(sandbox: Sandbox, label: SnapshotLabel, file: TakenIn): Promise<SnapshotDetails> {
    const { id, owner } = sandbox.row;
    let bytes = 0;
    for (const { path } of [file, ...(file.below ?? [])]) bytes += (await stat(path)).size;
    using _room = this.#quotas.holdDisk(`take a snapshot into sandbox "${id}"`, owner, bytes);
    return await takeInSnapshot(sandbox, label, file);
  }

  /** For files that were put there by hand. Whoever looks does not wait for an operation that takes long. */
  async #look(id: SandboxId): Promise<void> {
    if (this.#residents.find(id).mailbox.isIdle) await this.#residents.operate(id, findFiles);
  }
}

async function opened(
  sandbox: Sandbox,
  label: SnapshotLabel,
): Promise<{ readonly opening: Opening; readonly layers: readonly LayerRef[] }> {
  const { layers } = findSnapshot(sandbox, label);
  return { opening: await openSnapshot(sandbox, label), layers };
}

function remoteDetails({ label, size, createdMs, isWhole }: RemoteSnapshot): SnapshotDetails {
  const own = { label, labels: {}, created_at: rfc3339(createdMs), size_bytes: size };
  return { ...own, memory_bytes: null, location: 'remote', whole: isWhole, base: null, active: false };
}
