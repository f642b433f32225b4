/**
 * `sandboxes/<id>/.meta/sandbox.json`: a shadow of the database's rows, for the day the database is lost.
 *
 * The database is the authority; nobody reads the shadow while it is sound. It follows each change a moment
 * later; a daemon that died in between leaves an old revision, which the next one writes anew.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { type SandboxRow, type SnapshotRow, sandboxRowSchema, snapshotRowSchema } from './rows.ts';

const sandboxFileSchema = z.strictObject({
  version: z.literal(1),
  sandbox: sandboxRowSchema,
  snapshots: z.array(snapshotRowSchema),
});
export type SandboxFile = z.infer<typeof sandboxFileSchema>;

/** Whether the original has left this directory of a sandbox, and nobody has taken it over. */
export function isOriginals(directory: string): boolean {
  const meta = join(directory, '.meta');
  return existsSync(join(meta, 'layers')) && !existsSync(join(meta, 'sandbox.json'));
}

/** Undefined where there is none that can be understood. */
export async function readSandboxFile(path: string): Promise<SandboxFile | undefined> {
  try {
    return sandboxFileSchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    // Missing, torn by hand or of another version: for every caller the same as none.
    return undefined;
  }
}

/** @throws what the file system says */
export async function writeSandboxFile(
  path: string,
  sandbox: SandboxRow,
  snapshots: readonly SnapshotRow[],
): Promise<void> {
  const file: SandboxFile = { version: 1, sandbox: { ...sandbox }, snapshots: [...snapshots] };
  await writeFileAtomic(path, `${JSON.stringify(file, undefined, 2)}\n`);
}
