/** `volumes/<id>/volume.json`: a shadow of the volume's row, for the day the database is lost. Written once, before the volume is ready. */
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { type VolumeRow, volumeRowSchema } from './rows.ts';

const name = 'volume.json';

/** @throws what the file system says */
export async function writeVolumeFile(directory: string, row: VolumeRow): Promise<void> {
  await writeFileAtomic(join(directory, name), `${JSON.stringify({ ...row, phase: 'ready' })}\n`);
}

/** Of all volumes whose file can be understood; what else lies there is told. */
export async function findVolumes(directory: string, problems: string[]): Promise<readonly VolumeRow[]> {
  const found: VolumeRow[] = [];
  for (const id of existsSync(directory) ? readdirSync(directory).sort() : []) {
    const row = await readFile(join(directory, id, name), 'utf8')
      .then((text) => volumeRowSchema.parse(JSON.parse(text)))
      // Missing, torn by hand or of another version: the same as none.
      .catch(() => undefined);
    if (row?.id === id) found.push(row);
    else problems.push(`volumes/${id} holds no volume.json that can be understood: left as it is`);
  }
  return found;
}
