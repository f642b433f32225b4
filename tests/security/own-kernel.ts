/** A guest whose kernel is the attacker's: its first programs keep every capability, and so do its commands. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { bootProgram, initProgram } from '@squash/base/programs';
import { makeInitrd } from '../../host/src/drivers/microvm/initrd.ts';
import { repository } from '../support/base-layer.ts';
import { ownedPrefix } from '../support/owned-directory.ts';

const run = promisify(execFile);

/** Under the name that the daemon gives the initramfs of this VM module: it takes the one that is there. */
export async function placeOwnKernel(dataDir: string, module: string): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), ownedPrefix('own-kernel')));
  try {
    await run('unsquashfs', [
      '-quiet',
      '-no-progress',
      '-dest',
      join(scratch, 'root'),
      module,
      'boot/modules',
    ]);
    const modules = join(scratch, 'root/boot/modules');
    const honest = await makeInitrd({ boot: bootProgram, init: initProgram, modules });
    const boot = await without('capabilities_keep', ['boot', 'common'], scratch);
    const init = await without('machine_confine', ['init', 'tree', 'common'], scratch);
    const name = `initrd-${createHash('sha256').update(honest).digest('hex').slice(0, 16)}`;
    await mkdir(join(dataDir, 'vm'), { recursive: true, mode: 0o700 });
    await writeFile(join(dataDir, 'vm', name), await makeInitrd({ boot, init, modules }));
    await chmod(join(dataDir, 'vm', name), 0o644);
    // The daemon's own, which sees to its mode.
    const { uid, gid } = await stat(dataDir);
    await chown(join(dataDir, 'vm', name), uid, gid);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** A program of these folders in which this function does nothing. */
async function without(name: string, folders: readonly string[], scratch: string): Promise<string> {
  const program = join(scratch, name);
  const nothing = `${program}.c`;
  await writeFile(nothing, `int __wrap_${name}(void);\nint __wrap_${name}(void) { return 0; }\n`);
  const native = join(repository, 'native');
  const sources = folders.flatMap((folder) => globSync(join(native, folder, '*.c')));
  const words = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-static', '-I', native, `-Wl,--wrap=${name}`];
  await run('gcc', [...words, '-o', program, nothing, ...sources]);
  return program;
}
