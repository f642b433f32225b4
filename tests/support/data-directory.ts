/**
 * Removes a data directory, whoever owns what is in it.
 *
 * Of an ordinary user with subordinate ids most files in `layers/` and `sandboxes/` belong to ids of his range:
 * only somebody who is root over that range may remove them.
 */
import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

export async function removeDataDirectory(path: string): Promise<void> {
  if (process.getuid?.() !== 0) {
    // Without subordinate ids there is nothing to map, and nothing that would need it.
    await run('unshare', ['--map-root-user', '--map-auto', '--', 'rm', '-rf', '--', path]).catch(
      () => undefined,
    );
  }
  await rm(path, { recursive: true, force: true });
}
