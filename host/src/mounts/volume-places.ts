/** Where volumes lie in the data directory: a directory each, `volumes/<id>/`, which comes after its row and goes before it. */
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { syncDirectory } from '@squash/base/atomic-file';
import { isErrno } from '@squash/base/errno';
import type { Log } from '@squash/base/log';
import type { VolumeId } from '@squash/contract/volume';
import type { VolumeRow } from '#store/rows.ts';
import { writeVolumeFile } from '#store/volume-file.ts';

export interface VolumePlacesOptions {
  readonly dataDir: string;
  readonly log: Log;
  /** Removes a tree, given relative to the data directory, whatever it holds. */
  readonly removeTree: (path: string) => Promise<void>;
}

export class VolumePlaces {
  readonly #options: VolumePlacesOptions;
  readonly #removals = new Set<Promise<void>>();

  constructor(options: VolumePlacesOptions) {
    this.#options = options;
  }

  make(id: VolumeId): void {
    mkdirSync(join(this.#options.dataDir, 'volumes', id), { recursive: true, mode: 0o700 });
  }

  /** For a repair of the database. */
  async describe(row: VolumeRow): Promise<void> {
    await writeVolumeFile(join(this.#options.dataDir, 'volumes', row.id), row);
  }

  /** Takes it away at once and for good; its room comes back a moment later, or with the next daemon. */
  async discard(id: VolumeId): Promise<void> {
    const { dataDir, removeTree, log } = this.#options;
    const name = join('trash', `${id}.${randomBytes(6).toString('hex')}`);
    try {
      await rename(join(dataDir, 'volumes', id), join(dataDir, name));
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return;
      throw error;
    }
    await syncDirectory(join(dataDir, 'volumes'));
    const removal = removeTree(name)
      .catch((error: unknown) => log.warn('trash.remove', { path: name, error }))
      .finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
  }

  async names(): Promise<readonly string[]> {
    return readdir(join(this.#options.dataDir, 'volumes'));
  }

  /** Resolves when all removals are done. */
  async settle(): Promise<void> {
    await Promise.all(this.#removals);
  }
}
