/**
 * The port of snapshots that are kept beside this machine, in a bucket. The implementation is `s3/bucket-snapshots.ts`,
 * what it asks of this machine's own snapshots is `SnapshotSource`.
 *
 * A snapshot that lies on others here lies on copies of them there, or is one whole file.
 */
import type { FileHandle } from 'node:fs/promises';
import type { Backend } from '@squash/contract/backend';
import type { BucketInfo, BucketList } from '@squash/contract/bucket';
import type { Problem } from '@squash/contract/daemon';
import type { SandboxImage } from '@squash/contract/image';
import type { ModuleName, SandboxId, SnapshotLabel } from '@squash/contract/ids';
import type { Metric } from '@squash/base/metric';
import type { SandboxRow, SnapshotRow } from '#store/rows.ts';

export interface SnapshotName {
  readonly id: SandboxId;
  readonly label: SnapshotLabel;
}

/** A snapshot here, for whoever brings it away. */
export interface LocalSnapshot {
  readonly sandbox: SandboxRow;
  readonly snapshot: SnapshotRow;
  /** The same for the same files: of a whole one its digest, else one made of all digests that it consists of. */
  readonly content: string;
  readonly isWhole: boolean;
  /** What it lies on, the topmost first. */
  readonly below: readonly LocalPiece[];
}

export interface LocalPiece {
  readonly label: SnapshotLabel;
  /** Of its own file. */
  readonly digest: string;
}

export interface SnapshotSource {
  all(): readonly SnapshotName[];
  /** @throws sandbox_not_found, snapshot_not_found, layer_corrupt: it is gone, or no use to anybody */
  describe(name: SnapshotName): Promise<LocalSnapshot>;
  /** The whole of it as one file, which is the caller's to close. @throws as `describe`, disk_full */
  open(name: SnapshotName): Promise<FileHandle>;
  /** Its own file, whatever it lies on. @throws as `describe` */
  openOwn(name: SnapshotName): Promise<FileHandle>;
}

export interface RemoteSnapshot {
  readonly label: SnapshotLabel;
  readonly isWhole: boolean;
  /** Of its own file. */
  readonly size: number;
  readonly createdMs: number;
}

export interface FetchedPiece {
  readonly path: string;
  readonly digest: string;
}

export interface FetchedSnapshot {
  /** Whoever is handed it may move it; else it is removed. */
  readonly path: string;
  /** What it lies on, the lowest first: files as that one. */
  readonly below: readonly FetchedPiece[];
  /** What it was taken on; undefined: nobody has said. */
  readonly layers: SnapshotRow['layers'] | undefined;
  /** undefined: nobody has said. */
  readonly createdMs: number | undefined;
  readonly labels: SnapshotRow['labels'];
  /** Of its sandbox, where that was made from one. */
  readonly image: SandboxImage | undefined;
  /** undefined: nobody has said. */
  readonly backend: Backend | undefined;
}

/** A sandbox's folder belongs to the owner of the sandbox whose snapshots it holds: nobody else is told of them. */
export interface RemoteOwner {
  readonly id: SandboxId;
  readonly owner: string;
}

/** A label of those that the daemon takes by itself: here they go when they are in the bucket, and there the last ones stay. */
export const automaticLabel = 'squash.automatic';

export function isAutomatic({ labels }: Pick<SnapshotRow, 'labels'>): boolean {
  return labels[automaticLabel] !== undefined;
}

export interface PushWish {
  /** What is there under its label may be another's. */
  readonly replace?: boolean;
}

export interface RemoteSnapshots {
  /** From here on what is here is compared with what is there. */
  begin(source: SnapshotSource): void;
  /** Sorted by label; none where the bucket does not say it soon. */
  list(of: RemoteOwner): Promise<readonly RemoteSnapshot[]>;
  /**
   * Brings the file, checked against every digest that the bucket states, and hands it to `admit`. False where the bucket
   * has no such snapshot of this owner. @throws bucket_unavailable, layer_corrupt, disk_full
   */
  fetch(
    of: RemoteOwner & { readonly label: SnapshotLabel },
    admit: (found: FetchedSnapshot) => Promise<void>,
  ): Promise<boolean>;
  /** The one to go on from. @throws bucket_unavailable, layer_corrupt, sandbox_exists where it is another owner's */
  latest(of: RemoteOwner): Promise<SnapshotLabel | undefined>;
  /** It is here, new or changed: it is brought there later. */
  changed(name: SnapshotName): void;
  /** Resolves when it is there. @throws bucket_unavailable, bucket_conflict */
  push(name: SnapshotName, wish: PushWish): Promise<void>;
  /** The same for all of a sandbox that wait. */
  flush(id: SandboxId): Promise<void>;
  readonly pending: number;
  problems(): readonly Problem[];
  metrics(): readonly Metric[];
}

export interface RemoteObjects {
  readonly about: Pick<BucketInfo, 'name' | 'endpoint' | 'region' | 'prefix'>;
  /** @throws bucket_unavailable */
  list(prefix: string): Promise<BucketList>;
  /** @throws bucket_unavailable */
  remove(key: string): Promise<void>;
}

/** Modules that are not here, from the bucket; nothing where there is none. Call without `layerLock`. */
export type BringModules = (names: readonly ModuleName[]) => Promise<void>;
