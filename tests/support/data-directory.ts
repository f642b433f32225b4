/**
 * Removes a data directory, or a part of one, whoever owns what is in it.
 *
 * Of an ordinary user with subordinate ids most files in `layers/` and `sandboxes/` belong to ids of his range:
 * only somebody who is root over that range may remove them. Without such ids all of it is the user's, but overlayfs leaves a
 * directory in each upper (`work/work`) that may not even be read: there, too, only root of a namespace gets through.
 */
import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

export async function removeDataDirectory(path: string): Promise<void> {
  if (process.getuid?.() !== 0) {
    const remove = ['--map-root-user', '--', 'rm', '-rf', '--', path];
    // Without subordinate ids there is no range to map, and the user's own id is all that is needed.
    await run('unshare', ['--map-auto', ...remove])
      .catch(() => run('unshare', remove))
      .catch(() => undefined);
  }
  // Node's own fails at a path that is longer than the kernel takes at once.
  await run('rm', ['-rf', '--', path]).catch(() => undefined);
  await rm(path, { recursive: true, force: true });
}
