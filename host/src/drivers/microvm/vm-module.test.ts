/** What virtual machines start from is held to its manifest, as any module is; and what is told where a guest does not start in time. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ownedPrefix } from '../../../../tests/support/owned-directory.ts';
import { startFailure } from './guest-boot.ts';
import { VmModule } from './vm-module.ts';

const dataDir = mkdtempSync(join(tmpdir(), ownedPrefix('vm-module')));
after(() => rmSync(dataDir, { recursive: true }));
mkdirSync(join(dataDir, 'modules'));
const path = join(dataDir, 'modules', '900-vmm.squashfs');
const reached = new Error('it is unpacked');
const launcher = {
  unpack: () => Promise.reject(reached),
  removeTree: () => Promise.resolve(),
};

function filesOf(text: string, manifest: string | undefined): Promise<unknown> {
  writeFileSync(path, text);
  rmSync(`${path}.manifest.json`, { force: true });
  if (manifest !== undefined) writeFileSync(`${path}.manifest.json`, manifest);
  return new VmModule({ dataDir, launcher, isUsed: () => false }).files();
}

test('a VM module is refused when its manifest names another digest, or can not be read', async () => {
  const manifest = JSON.stringify({
    schema: 1,
    name: '900-vmm',
    built_at: '2026-12-01',
    builder: 'test',
    base: null,
    packages: [],
    squashfs_sha256: createHash('sha256').update('as built').digest('hex'),
  });
  await assert.rejects(filesOf('changed', manifest), { code: 'layer_corrupt', message: /it should be/ });
  await assert.rejects(filesOf('as built', '{'), { code: 'layer_corrupt', message: /manifest is malformed/ });
  await assert.rejects(filesOf('as built', manifest), reached);
  await assert.rejects(filesOf('any', undefined), reached);
});

test('a guest that does not answer in time is told in words', async () => {
  const late = AbortSignal.timeout(0);
  await new Promise((resolve) => late.addEventListener('abort', resolve));
  const failure = startFailure(late.reason, ['its last line'], { mounts: [] });
  assert.equal(failure.code, 'launch_failed');
  assert.match(failure.message, /did not answer in time.*; its last line$/);
});
