/**
 * What a daemon in ephemeral mode could not save when it ended, from the file that it has left (`host/src/unsaved.ts`).
 *
 * The file lies in a directory of whoever the daemon runs as, and root may be the one who reads it: no link is followed, nothing but a
 * file of the daemon's owner is read, and what stands in it is shown, not believed.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { DaemonInfo, Unsaved, unsavedFile } from '@squash/contract/daemon';

const name = 'unsaved.json' satisfies typeof unsavedFile;
const bytesMax = 4 << 20;

/** Nothing where that can't be told. */
export function unsavedOf({ pid, socket }: DaemonInfo, owner: number | undefined): readonly Unsaved[] {
  try {
    const found: unknown = JSON.parse(readOwn(join(dirname(socket), name), owner));
    if (typeof found !== 'object' || found === null || !('pid' in found) || found.pid !== pid) return [];
    const listed: unknown = 'sandboxes' in found ? found.sandboxes : undefined;
    return Array.isArray(listed) ? listed.filter(isUnsaved) : [];
  } catch {
    // None was left; or there is none that could be believed.
    return [];
  }
}

function readOwn(path: string, owner: number | undefined): string {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const about = fstatSync(file);
    if (!about.isFile() || about.uid !== owner) return '';
    const bytes = Buffer.alloc(Math.min(about.size, bytesMax));
    return bytes.toString('utf8', 0, readSync(file, bytes));
  } finally {
    closeSync(file);
  }
}

function isUnsaved(value: unknown): value is Unsaved {
  if (typeof value !== 'object' || value === null) return false;
  return ['id', 'code', 'why'].every((key) => typeof (value as Record<string, unknown>)[key] === 'string');
}
