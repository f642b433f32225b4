/** The snapshots that are here, for whoever brings them to a bucket. Each look takes its sandbox's turn. */
import type { FileHandle } from 'node:fs/promises';
import { isRemoved } from '#store/rows.ts';
import type { LocalSnapshot, SnapshotName, SnapshotSource } from '../sandbox/remote-snapshots.ts';
import { describeContent } from '../sandbox/snapshot-content.ts';
import { openOwnFile, openSnapshot } from '../sandbox/snapshots.ts';
import { type Residents, whileItStays } from './residents.ts';

export class ResidentSnapshots implements SnapshotSource {
  readonly #residents: Residents;

  constructor(residents: Residents) {
    this.#residents = residents;
  }

  all(): readonly SnapshotName[] {
    return this.#residents
      .all()
      .flatMap(({ row, snapshots }) =>
        snapshots.filter((each) => !isRemoved(each)).map(({ label }) => ({ id: row.id, label })),
      );
  }

  describe({ id, label }: SnapshotName): Promise<LocalSnapshot> {
    return this.#residents.operate(id, (sandbox) => describeContent(sandbox, label));
  }

  async open({ id, label }: SnapshotName): Promise<FileHandle> {
    const sandbox = this.#residents.find(id);
    const { file } = await this.#residents.operate(id, () => openSnapshot(sandbox, label));
    return await whileItStays(sandbox, file);
  }

  async openOwn({ id, label }: SnapshotName): Promise<FileHandle> {
    const { file } = await this.#residents.operate(id, (sandbox) => openOwnFile(sandbox, label));
    return await file;
  }
}
