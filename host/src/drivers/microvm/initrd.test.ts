/** The initramfs by itself. That a kernel boots from it is shown by tests/vm/microvm-guest.test.ts. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, mkdtempDisposable, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { type InitrdParts, makeInitrd } from './initrd.ts';

const programs = new URL(
  `../../../../native/build/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}/`,
  import.meta.url,
).pathname;

async function makeParts(folder: string): Promise<InitrdParts> {
  const modules = join(folder, 'modules');
  await mkdir(modules);
  for (const name of ['10-last.ko', '00-virtio_mmio.ko', '01-virtio-rng.ko'])
    await writeFile(join(modules, name), name);
  return { boot: join(programs, 'squash-boot'), init: join(programs, 'squash-init'), modules };
}

test('an initramfs is the same bytes when its files are the same, and holds modules in load order', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'squash-initrd-'));
  const parts = await makeParts(folder.path);
  const bytes = await makeInitrd(parts);
  await utimes(join(parts.modules, '10-last.ko'), 1, 1);
  assert.ok(bytes.equals(await makeInitrd(parts)));
  const names = execFileSync('/bin/busybox', ['cpio', '-t'], {
    input: bytes,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  assert.deepEqual(names.trim().split('\n'), [
    'init',
    'squash-init',
    'modules',
    'modules/00-virtio_mmio.ko',
    'modules/01-virtio-rng.ko',
    'modules/10-last.ko',
  ]);
});

test('an initramfs is refused when its modules have no order, and when there are none', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'squash-initrd-'));
  const parts = await makeParts(folder.path);
  const refused = (text: RegExp) => (error: unknown) =>
    error instanceof AppError && error.code === 'launch_failed' && text.test(error.message);
  await writeFile(join(parts.modules, '02-virtio_blk.ko.xz'), '');
  await assert.rejects(makeInitrd(parts), refused(/"02-virtio_blk\.ko\.xz" is none/));
  await mkdir(join(folder.path, 'empty'));
  await assert.rejects(
    makeInitrd({ ...parts, modules: join(folder.path, 'empty') }),
    refused(/there are none/),
  );
});

test('squash-boot does nothing when it is no initramfs’s first program', () => {
  const { status, stderr } = spawnSync(join(programs, 'squash-boot'), { encoding: 'utf8' });
  assert.deepEqual([status, stderr.split('\n').length], [2, 2]);
});
