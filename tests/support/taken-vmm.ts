/**
 * A VM module whose programs are an attacker's (`taken-vmm.c`): a sandbox of it is a microVM to the daemon, and its commands run where
 * QEMU would, with what a monitor has that somebody broke into from its guest. It starts in no time, for there is no machine.
 */
import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { initProgram } from '@squash/base/programs';
import { baseLayer } from './base-layer.ts';
import { ownedPrefix } from './owned-directory.ts';

const run = promisify(execFile);
const programs = ['usr/sbin/mke2fs', 'usr/bin/vhost-device-vsock', 'usr/bin/qemu-system-x86_64'];

export interface TakenVmmOptions {
  /** More of the module, by path without leading slash: all of it may be run. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
  /** Files of the host to be copied, by path in the module. */
  readonly copies?: Readonly<Record<string, string>>;
}

/** Writes the module to `path`, at once. */
export async function takenVmm(
  path: string,
  { files = {}, copies = {} }: TakenVmmOptions = {},
): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), ownedPrefix('taken')));
  try {
    const root = join(scratch, 'root');
    await run('unsquashfs', ['-quiet', '-no-progress', '-dest', root, await baseLayer()]);
    for (const folder of ['boot/modules', 'drives', 'lies'])
      await mkdir(join(root, folder), { recursive: true });
    const strict = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror', '-static'];
    await run('gcc', [...strict, '-o', join(root, 'taken-vmm'), join(import.meta.dirname, 'taken-vmm.c')]);
    for (const program of programs) await symlink('/taken-vmm', join(root, program));
    await copyFile(initProgram, join(root, 'squash-init'));
    await chmod(join(root, 'squash-init'), 0o755);
    const all = { 'boot/vmlinux': '', 'boot/modules/00-none.ko': '', ...files };
    for (const [name, content] of Object.entries(all)) await put(join(root, name), content);
    for (const [name, from] of Object.entries(copies)) await put(join(root, name), await readFile(from));
    const packed = join(scratch, 'module.squashfs');
    await run('mksquashfs', [root, packed, '-all-root', '-noappend', '-no-progress', '-quiet']);
    await copyFile(packed, `${path}.new`);
    await rename(`${path}.new`, path);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function put(path: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content, { mode: 0o755 });
}
