/**
 * Small layers for tests: a base of one static busybox, built in well under a second and kept in `.cache/`.
 *
 * Needs `busybox-static` and `squashfs-tools`. The real Debian base is built by `images/` and takes minutes.
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
export const repository = resolve(import.meta.dirname, '../..');
const cache = join(repository, '.cache', 'test-layers');
/** Part of the cached file's name: raise it when the content below changes. */
const baseVersion = 1;

/** Path of `000-base-test`'s squashfs file. */
export async function baseLayer(): Promise<string> {
  const path = join(cache, `000-base-test.${baseVersion}.squashfs`);
  if (await exists(path)) return path;
  await pack(path, async (root) => {
    for (const folder of [
      'bin',
      'sbin',
      'etc',
      'root',
      'tmp',
      'proc',
      'dev',
      'sys',
      'run',
      'usr/bin',
      'usr/sbin',
      'var/tmp',
      'home',
    ]) {
      await mkdir(join(root, folder), { recursive: true });
    }
    await copyFile('/bin/busybox', join(root, 'bin/busybox'));
    const { stdout } = await run('/bin/busybox', ['--list']);
    for (const applet of stdout.split('\n').filter((name) => name !== '' && name !== 'busybox')) {
      await symlink('busybox', join(root, 'bin', applet));
    }
    await writeFile(
      join(root, 'etc/passwd'),
      'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n',
    );
    await writeFile(join(root, 'etc/group'), 'root:x:0:\nnogroup:x:65534:\n');
    await writeFile(join(root, 'etc/os-release'), 'ID=squash-test\n');
  });
  return path;
}

/** Stands in for Python's layer, with what the documents ask of it: `-c` answers 42, `-m http.server PORT` serves a page. */
export async function pythonLayer(): Promise<string> {
  const path = join(cache, `100-python-test.${baseVersion}.squashfs`);
  if (await exists(path)) return path;
  await pack(path, async (root) => {
    await mkdir(join(root, 'usr/bin'), { recursive: true });
    const program = `#!/bin/sh
case "$1" in -c) echo 42 ;; -m) cd /tmp && echo "<html>" >index.html && exec httpd -f -p "$3" ;; esac
`;
    await writeFile(join(root, 'usr/bin/python3'), program, { mode: 0o755 });
  });
  return path;
}

/** The names of the layers of `squash quickstart`, with the little ones behind them. */
export async function quickstartModules(): Promise<Record<string, string>> {
  return { '000-base-debian': await baseLayer(), '100-python311': await pythonLayer() };
}

/** A module that holds these files, by path without leading slash; bytes are programs. The file belongs to the caller. */
export async function packModule(
  path: string,
  files: Readonly<Record<string, string | Uint8Array>>,
): Promise<void> {
  await pack(path, async (root) => {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(root, name)), { recursive: true });
      await writeFile(join(root, name), text, { mode: typeof text === 'string' ? 0o644 : 0o755 });
    }
  });
}

async function pack(path: string, fill: (root: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const scratch = await mkdtemp(join(dirname(path), '.pack-'));
  try {
    const root = join(scratch, 'root');
    await mkdir(root, { mode: 0o755 });
    await fill(root);
    const packed = join(scratch, 'layer.squashfs');
    await run('mksquashfs', [
      root,
      packed,
      '-all-root',
      '-noappend',
      '-no-progress',
      '-quiet',
      '-comp',
      'zstd',
      '-Xcompression-level',
      '3',
    ]);
    // Two tests may build it at once: whoever renames last wins, with the same content.
    await rename(packed, path);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch {
    // Not built yet.
    return false;
  }
}
