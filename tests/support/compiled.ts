/**
 * What Node has compiled of the daemon, kept between tests: each has a data directory of its own, and its daemon would compile two
 * hundred files and start again. Node looks by itself whether an entry still fits its source. Daemons that start with nothing are those
 * of tests/e2e/first-start.test.ts, readme.test.ts and tests/vm.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { repository } from './base-layer.ts';

const run = promisify(execFile);
const kept = join(repository, '.cache/test-compiled');
/** The daemon's and the egress process's: neither executes what the other has written. */
const folders = ['run/compile', 'egress/compile'] as const;
const keptAs = (folder: string): string => folder.replace('/', '-');

/** Before the first start. @returns when: what is written later is new */
export async function takeCompiled(dataDir: string): Promise<number> {
  for (const folder of folders) {
    const place = join(dataDir, folder);
    await mkdir(dirname(place), { mode: 0o700 });
    try {
      await run('cp', ['-rT', join(kept, 'now', keptAs(folder)), place]);
      // The daemon is not the id that runs this test. Nobody else enters the data directory.
      await run('chmod', ['-R', 'a+rwX', dirname(place)]);
    } catch {
      // There is none yet, or another test is just putting a newer one in its place.
    }
  }
  return Date.now();
}

/** When all processes have ended, which write what they have compiled then. */
export async function keepCompiled(dataDir: string, takenMs: number): Promise<void> {
  try {
    const places = folders.map((folder) => join(dataDir, folder));
    const since = ['-newermt', `@${takenMs / 1000}`, '-print', '-quit'];
    if ((await run('find', [...places, ...since])).stdout === '') return;
    await mkdir(kept, { recursive: true });
    const next = await mkdtemp(join(kept, 'next-'));
    try {
      for (const folder of folders)
        await run('cp', ['-rT', join(dataDir, folder), join(next, keptAs(folder))]);
      await rm(join(kept, 'now'), { recursive: true, force: true });
      await rename(next, join(kept, 'now'));
    } finally {
      await rm(next, { recursive: true, force: true });
    }
  } catch {
    // Another test has put its own there, a disk is full on purpose, or `.cache` is not this user's: the next daemon compiles for itself.
  }
}
