/**
 * Volumes, and what sandboxes have attached.
 *
 * A volume's row says what its directory is: written before the first step of a create (`creating`) and of a removal (`removing`), so
 * the next daemon undoes the one and completes the other. Whether a volume is free is asked, and what takes it is
 * written, in one turn of the event loop.
 */
import { randomBytes } from 'node:crypto';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import {
  type MountId,
  mountIdSchema,
  type MountInfo,
  type MountWish,
  type StoredMount,
  type VolumeBody,
  type VolumeId,
  volumeIdSchema,
  type VolumeInfo,
} from '@squash/contract/volume';
import type { HostWish, MountStep } from '@squash/contract/mount-check';
import { rfc3339 } from '@squash/base/clock';
import type { VolumeRow } from '#store/rows.ts';
import type { UpperKind } from '../drivers/driver.ts';
import type { VolumePlaces } from '../mounts/volume-places.ts';
import { faultPoint } from '../sandbox/fault.ts';
import { attachMount, detachMount } from '../sandbox/mounts.ts';
import type { World } from '../sandbox/world.ts';
import type { Quotas } from './quotas.ts';
import type { Residents } from './residents.ts';

/** Who asks: names are of one owner's volumes, so that nobody chooses what another's word means; ids are of all that he sees. */
export interface VolumeAsker {
  /** Whose volumes he sees; null: everybody's. */
  readonly sees: string | null;
  /** Whose are those that he names, and those that he makes. */
  readonly owner: string;
}

export interface Volumes {
  /** @throws volume_exists, volume_limit, quota_exceeded, volume_not_found, volume_in_use, limits_unenforceable, disk_full */
  create(asker: VolumeAsker, wish: VolumeBody): Promise<VolumeInfo>;
  /** By id. */
  list(sees: VolumeAsker['sees']): readonly VolumeInfo[];
  /** By name or id. @throws volume_not_found */
  get(asker: VolumeAsker, volume: string): VolumeInfo;
  /** @throws volume_not_found, volume_in_use */
  remove(asker: VolumeAsker, volume: string): Promise<void>;
  /**
   * Call in a transaction: with that it is nobody's any more. What is left to do is for whoever calls the answer, when the transaction
   * is over, or else for the next daemon. @throws volume_not_found, volume_in_use
   */
  removal(asker: VolumeAsker, volume: string): () => Promise<void>;
  /** @throws volume_not_found, volume_in_use, volume_exists, disk_full */
  snapshot(
    asker: VolumeAsker,
    volume: string,
    wish: Pick<VolumeBody, 'name' | 'labels'>,
  ): Promise<VolumeInfo>;
  /** What a create stores for these wishes. @throws volume_not_found */
  plan(asker: VolumeAsker, wishes: readonly MountWish[]): readonly StoredMount[];
  /** Each rule about a directory of the host, up to the one that refuses it. */
  judge(wish: HostWish): readonly MountStep[];
  attach(asker: VolumeAsker, id: SandboxId, wish: MountWish): Promise<MountInfo>;
  /** By path. @throws sandbox_not_found */
  mounts(id: SandboxId): readonly MountInfo[];
  detach(id: SandboxId, mount: MountId): Promise<void>;
}

const bytesPerMb = 1_048_576;

const unsized = {
  code: 'volume_size',
  message:
    'nothing holds the volume to a size here: it can fill the disk of the data directory; squash doctor says how images or project quotas are to be had',
};

export interface VolumesOptions {
  readonly world: World;
  readonly residents: Residents;
  readonly places: VolumePlaces;
  readonly quotas: Quotas;
}

/** What is to be made. */
interface Draft {
  readonly owner: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly bytesMax: number | null;
  readonly snapshotOf: VolumeId | null;
  readonly copied: VolumeRow | undefined;
}

export class LocalVolumes implements Volumes {
  readonly #world: World;
  readonly #residents: Residents;
  readonly #places: VolumePlaces;
  readonly #quotas: Quotas;

  constructor({ world, residents, places, quotas }: VolumesOptions) {
    this.#world = world;
    this.#residents = residents;
    this.#places = places;
    this.#quotas = quotas;
  }

  /** Undoes and completes what an earlier daemon began. */
  async resume(): Promise<void> {
    const rows = this.#rows();
    for (const row of rows) {
      if (row.phase !== 'ready') await this.#discard(row);
    }
    const known = new Set<string>(rows.map(({ id }) => id));
    for (const name of await this.#places.names()) {
      // A database that was lost or exchanged: it is somebody's work.
      if (!known.has(name)) this.#world.log.warn('recover.stranger', { directory: `volumes/${name}` });
    }
  }

  async create(asker: VolumeAsker, { name, labels = {}, size_mb, from }: VolumeBody): Promise<VolumeInfo> {
    const copied = from === undefined ? undefined : this.#find(asker, from);
    const asked = size_mb === undefined ? null : size_mb * bytesPerMb;
    if (asked !== null && !holdsSize(this.#kind))
      throw new AppError(
        'limits_unenforceable',
        `Cannot make volume "${name}" of ${size_mb} MB: ${unsized.message}`,
      );
    const bytesMax = asked ?? copied?.bytesMax ?? null;
    return await this.#make({ owner: asker.owner, name, labels, bytesMax, snapshotOf: null, copied });
  }

  async snapshot(
    asker: VolumeAsker,
    volume: string,
    { name, labels = {} }: Pick<VolumeBody, 'name' | 'labels'>,
  ): Promise<VolumeInfo> {
    // Whoever has no room left need not be told which volumes there are.
    if (asker.sees !== null)
      this.#quotas.holdDisk(`copy volume "${volume}"`, asker.sees, 1)[Symbol.dispose]();
    const copied = this.#find(asker, volume);
    const { id: snapshotOf, bytesMax } = copied;
    return await this.#make({ owner: copied.owner, name, labels, bytesMax, snapshotOf, copied });
  }

  list(sees: VolumeAsker['sees']): readonly VolumeInfo[] {
    return this.#seen(sees).map((row) => this.#info(row));
  }

  get(asker: VolumeAsker, volume: string): VolumeInfo {
    return this.#info(this.#find(asker, volume));
  }

  async remove(asker: VolumeAsker, volume: string): Promise<void> {
    const { store } = this.#world;
    await store.durably(() => this.removal(asker, volume))();
  }

  removal(asker: VolumeAsker, volume: string): () => Promise<void> {
    const row = this.#find(asker, volume);
    this.#checkUnused(row, 'remove');
    const { store } = this.#world;
    store.volumes.setPhase(row.id, 'removing');
    return async () => {
      faultPoint('volume-remove.marked');
      await store.synced();
      await this.#discard(row);
    };
  }

  plan(asker: VolumeAsker, wishes: readonly MountWish[]): readonly StoredMount[] {
    return wishes.map((wish): StoredMount => {
      const id = mountIdSchema.parse(`mnt_${randomBytes(8).toString('hex')}`);
      const { path, paths } = wish;
      const levels = { mode: wish.mode ?? 'ro', ...(paths !== undefined && { paths }) };
      if (wish.volume === undefined) return { id, volume: null, host: wish.host ?? '', path, ...levels };
      const row = this.#find(asker, wish.volume);
      const isSnapshot = row.snapshotOf !== null;
      if (isSnapshot && wish.mode === 'rw')
        throw new AppError(
          'mount_refused',
          `Cannot attach "${row.name}" for writing: it is a snapshot; make a volume from it`,
        );
      return { id, volume: row.id, host: null, path, mode: wish.mode ?? (isSnapshot ? 'ro' : 'rw') };
    });
  }

  judge(wish: HostWish): readonly MountStep[] {
    return this.#world.mounts.judge(wish);
  }

  async attach(asker: VolumeAsker, id: SandboxId, wish: MountWish): Promise<MountInfo> {
    return this.#residents.operate(id, async (sandbox) => {
      const [mount] = this.plan(asker, [wish]);
      if (mount === undefined) throw new AppError('internal', 'nothing was planned');
      await attachMount(sandbox, mount);
      return { ...mount };
    });
  }

  mounts(id: SandboxId): readonly MountInfo[] {
    const { mounts } = this.#residents.find(id).row;
    return [...mounts].sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  detach(id: SandboxId, mount: MountId): Promise<void> {
    return this.#residents.operate(id, (sandbox) => detachMount(sandbox, mount));
  }

  /** A tmpfs would not outlive the launcher. */
  get #kind(): UpperKind {
    const { upperKind } = this.#world.driver;
    return upperKind === 'tmpfs' ? 'directory' : upperKind;
  }

  async #make(draft: Draft): Promise<VolumeInfo> {
    const { store, log, driver } = this.#world;
    const { copied } = draft;
    const row = this.#insert(draft);
    faultPoint('volume.inserted');
    try {
      this.#places.make(row.id);
      const bytes = row.bytesMax ?? 0;
      await driver.createVolume(row, { bytes, inodes: Math.ceil(bytes / limits.upperBytesPerInode) });
      faultPoint('volume.made');
      if (copied !== undefined) await this.#copy(copied, row);
      await this.#places.describe(row);
      store.durably(() => store.volumes.setPhase(row.id, 'ready'));
      faultPoint('volume.committed');
    } catch (error) {
      // Where even that fails the next daemon does it.
      await this.#discard(row).catch((undoing: unknown) =>
        log.error('volume.undo', { volume: row.id, error: undoing }),
      );
      throw error;
    }
    return this.#info({ ...row, phase: 'ready' });
  }

  #insert({ copied, bytesMax, ...draft }: Draft): VolumeRow {
    const { store, clock, fixedLimits, driver } = this.#world;
    const rows = this.#rows();
    if (rows.length >= limits.volumesMax)
      throw new AppError('volume_limit', `Cannot make volume "${draft.name}": there are ${rows.length}`);
    if (rows.some(({ owner, name }) => owner === draft.owner && name === draft.name))
      throw new AppError('volume_exists', `Cannot make volume "${draft.name}": there is one`);
    if (copied !== undefined) this.#checkUnused(copied, 'copy');
    const kind = this.#kind;
    const size = holdsSize(kind) ? (bytesMax ?? fixedLimits.upperBytesMax) : null;
    this.#checkQuota(draft, size);
    const { disk } = driver.room();
    if (kind === 'image' && size !== null && disk.availableBytes - disk.markBytes < size)
      throw new AppError(
        'disk_full',
        `Cannot set ${size} bytes aside for volume "${draft.name}": the disk has less room`,
      );
    const row: VolumeRow = {
      ...draft,
      id: volumeIdSchema.parse(`vol_${randomBytes(8).toString('hex')}`),
      kind,
      bytesMax: size,
      labels: { ...draft.labels },
      createdMs: clock.wallMs(),
      phase: 'creating',
    };
    store.durably(() => store.volumes.insert(row));
    return row;
  }

  /** The row that is written in the same turn counts from then on. */
  #checkQuota({ owner, name }: Pick<Draft, 'owner' | 'name'>, size: number | null): void {
    const what = `make volume "${name}"`;
    if (size !== null) this.#quotas.holdDisk(what, owner, size)[Symbol.dispose]();
    else if (this.#quotas.of(owner).disk_mb !== null)
      throw new AppError(
        'quota_exceeded',
        `Cannot ${what}: "${owner}" has a quota of disk, and ${unsized.message}`,
      );
  }

  async #discard({ id }: VolumeRow): Promise<void> {
    const { store } = this.#world;
    await this.#places.discard(id);
    faultPoint('volume-remove.trashed');
    store.pressing(() => store.volumes.delete(id));
  }

  async #copy(from: VolumeRow, to: VolumeRow): Promise<void> {
    this.#checkUnused(from, 'copy');
    using _held = this.#world.mounts.hold(from.id);
    await this.#world.driver.copyVolume(from, to, to.bytesMax ?? 0);
  }

  #checkUnused(row: VolumeRow, what: 'remove' | 'copy'): void {
    const { store } = this.#world;
    const [first] = store.read(() => store.volumes.attachments(row.id));
    if (first !== undefined) throw inUse(row, what, `sandbox "${first.sandbox}" has it attached`);
    if (what === 'remove' && this.#world.mounts.isHeld(row.id)) throw inUse(row, what, 'it is being copied');
  }

  #rows(): readonly VolumeRow[] {
    const { store } = this.#world;
    return store.read(() => store.volumes.all());
  }

  #seen(sees: VolumeAsker['sees']): readonly VolumeRow[] {
    return this.#rows().filter((row) => row.phase === 'ready' && (sees === null || row.owner === sees));
  }

  #find(asker: VolumeAsker, volume: string): VolumeRow {
    const found = this.#seen(asker.sees).filter(({ id, name }) => id === volume || name === volume);
    const row = found.find(({ id, owner }) => id === volume || owner === asker.owner);
    if (row !== undefined) return row;
    const ids = found.map(({ id }) => id).join(', ');
    const hint = ids === '' ? '' : `: of this name others have ${ids}`;
    throw new AppError('volume_not_found', `Cannot find volume "${volume}"${hint}`);
  }

  #info(row: VolumeRow): VolumeInfo {
    const { store } = this.#world;
    return {
      id: row.id,
      name: row.name,
      owner: row.owner,
      labels: row.labels,
      size_mb: row.bytesMax === null ? null : Math.floor(row.bytesMax / bytesPerMb),
      snapshot_of: row.snapshotOf,
      created_at: rfc3339(row.createdMs),
      attached_to: [...store.read(() => store.volumes.attachments(row.id))],
      warnings: row.bytesMax === null ? [unsized] : [],
    };
  }
}

function holdsSize(kind: UpperKind): boolean {
  return kind === 'image' || kind === 'project';
}

function inUse({ name }: VolumeRow, what: string, why: string): AppError {
  return new AppError('volume_in_use', `Cannot ${what} volume "${name}": ${why}`);
}
