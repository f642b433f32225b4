/** Rows of volumes, and which sandboxes have them. Callers hold the transaction; every method is one statement. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import type { SandboxId } from '@squash/contract/ids';
import type { MountId, VolumeId } from '@squash/contract/volume';
import { type VolumeRow, volumeRowSchema } from './rows.ts';

export interface Attachment {
  readonly sandbox: SandboxId;
  readonly mount: MountId;
  readonly mode: 'ro' | 'rw';
}

export class VolumeTable {
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /** By id. */
  all(): readonly VolumeRow[] {
    return this.#database.prepare('SELECT * FROM volumes ORDER BY id').all().map(volumeOf);
  }

  get(id: VolumeId): VolumeRow | undefined {
    const row = this.#database.prepare('SELECT * FROM volumes WHERE id = ?').get(id);
    return row === undefined ? undefined : volumeOf(row);
  }

  insert(row: VolumeRow): void {
    this.#database
      .prepare(`INSERT INTO volumes (id, owner, name, labels, kind, bytes_max, snapshot_of, created_ms, phase)
        VALUES (:id, :owner, :name, :labels, :kind, :bytesMax, :snapshotOf, :createdMs, :phase)`)
      .run({ ...row, labels: JSON.stringify(row.labels) });
  }

  setPhase(id: VolumeId, phase: VolumeRow['phase']): void {
    this.#database.prepare('UPDATE volumes SET phase = ? WHERE id = ?').run(phase, id);
  }

  delete(id: VolumeId): void {
    this.#database.prepare('DELETE FROM volumes WHERE id = ?').run(id);
  }

  /** What the volumes of each owner may hold. */
  bytesByOwner(): ReadonlyMap<string, number> {
    const rows = this.#database
      .prepare('SELECT owner, coalesce(sum(bytes_max), 0) AS bytes FROM volumes GROUP BY owner')
      .all();
    return new Map(rows.map(({ owner, bytes }) => [String(owner), Number(bytes)]));
  }

  /** The sandboxes' rows say it, so a sandbox that goes has detached everything. */
  attachments(id: VolumeId): readonly Attachment[] {
    return this.#database
      .prepare(`SELECT sandboxes.id AS sandbox, mount.value ->> 'id' AS mount, mount.value ->> 'mode' AS mode
        FROM sandboxes, json_each(sandboxes.mounts) AS mount
        WHERE sandboxes.mounts <> '[]' AND mount.value ->> 'volume' = ? ORDER BY sandboxes.id`)
      .all(id)
      .map(({ sandbox, mount, mode }) => ({
        sandbox: String(sandbox) as SandboxId,
        mount: String(mount) as MountId,
        mode: mode === 'rw' ? 'rw' : 'ro',
      }));
  }
}

function volumeOf(row: Record<string, SQLOutputValue>): VolumeRow {
  return volumeRowSchema.parse({
    id: row['id'],
    owner: row['owner'],
    name: row['name'],
    labels: JSON.parse(String(row['labels'])),
    kind: row['kind'],
    bytesMax: row['bytes_max'],
    snapshotOf: row['snapshot_of'],
    createdMs: row['created_ms'],
    phase: row['phase'],
  });
}
