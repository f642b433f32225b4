/** A data directory of the original: its sandboxes start, or each is named with the reason. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { generateKeyPairSync } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf, signalAll } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const boxes = '/cgi-bin/api/sandboxes';
const isRoot = process.getuid?.() === 0;

/** As the original's versions wrote them: small text files, commas and lines in `layers`. */
function original(dataDir: string, id: string, meta: Readonly<Record<string, string>>): string {
  const directory = join(dataDir, 'sandboxes', id);
  for (const part of ['.meta/log', 'snapshots', 'upper/data/etc', 'upper/work', 'images', 'merged'])
    mkdirSync(join(directory, part), { recursive: true });
  for (const [name, text] of Object.entries({ owner: 'ann', task: 'try', ...meta }))
    writeFileSync(join(directory, '.meta', name), `${text}\n`);
  writeFileSync(join(directory, 'upper/data/etc/resolv.conf'), 'nameserver 10.0.2.3\n');
  return directory;
}

/** A snapshot that kernel overlay and fuse-overlayfs could have left: deletes files, hides directories. */
function snapshot(path: string): void {
  const tree = mkdtempSync(join(tmpdir(), 'squash-original-'));
  mkdirSync(join(tree, 'etc'));
  mkdirSync(join(tree, 'var'));
  writeFileSync(join(tree, 'var/new'), 'new\n');
  writeFileSync(join(tree, 'etc/.wh.os-release'), '');
  if (isRoot) execFileSync('setfattr', ['-n', 'trusted.overlay.opaque', '-v', 'y', join(tree, 'var')]);
  else writeFileSync(join(tree, 'var/.wh..wh..opq'), '');
  const words = [
    tree,
    path,
    '-xattrs',
    '-quiet',
    '-no-progress',
    '-p',
    'usr d 755 0 0',
    '-p',
    'usr/gone c 0 0 0 0 0',
  ];
  execFileSync('mksquashfs', words, { stdio: 'ignore' });
  rmSync(tree, { recursive: true });
}

/** Nothing runs, and nothing of ours but the modules is left: as the original's directory is when it is handed over. */
async function forget(daemon: TestDaemon): Promise<void> {
  await daemon.stop();
  const isOurs = ({ command }: { readonly command: string }): boolean =>
    command.includes('squash-launch') || command.includes('egress/src/main.ts');
  signalAll(daemon.dataDir, 'SIGTERM', isOurs);
  await waitFor('the launcher to end', () => !processesOf(daemon.dataDir).some(isOurs));
  await daemon.forgetDatabase();
  for (const name of ['sandboxes', 'proxy-ca', 'run', 'layers', 'egress'])
    rmSync(join(daemon.dataDir, name), { recursive: true, force: true });
}

test('sandboxes of the original start on their active snapshot, and the others are named with the reason', async () => {
  await using daemon = await TestDaemon.start();
  await forget(daemon);
  const { dataDir } = daemon;
  const settings = {
    cpu: '1',
    memory_mb: '256',
    max_lifetime_s: '0',
    allow_net: '["none"]',
    created: '2026-01-02T03:04:05+00:00',
  };
  const kept = original(dataDir, 'kept', { layers: '000-base-test,', active_snapshot: 'clean', ...settings });
  snapshot(join(kept, 'snapshots/clean.squashfs'));
  const written = original(dataDir, 'written', { layers: '000-base-test' });
  writeFileSync(join(written, 'upper/data/work'), 'of an hour');
  original(dataDir, 'no-module', { layers: '000-base-test\n,100-none' });
  original(dataDir, 'no-snapshot', { layers: '000-base-test', active_snapshot: 'lost' });
  mkdirSync(join(dataDir, 'proxy-ca'));
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = privateKey.export({ type: 'sec1', format: 'pem' }).toString();
  writeFileSync(join(dataDir, 'proxy-ca/ca.key'), key, { mode: 0o600 });
  // All of it is root's, as where the original ran.
  if (isRoot) chownSync(dataDir, 0, 0);
  await daemon.start();
  const api = new ApiClient(daemon);
  const list = (await api.get(boxes)).json as SandboxInfo[];
  assert.deepEqual(
    list.map(({ id, owner, active_snapshot, layers }) => [id, owner, active_snapshot, layers]),
    [
      ['kept', 'ann', 'clean', ['000-base-test']],
      ['written', 'ann', null, ['000-base-test']],
    ],
  );
  assert.deepEqual(
    [list[0]?.memory_mb, list[0]?.allow_net, list[0]?.created],
    [256, ['none'], '2026-01-02T03:04:05.000Z'],
  );
  assert.match(
    list[1]?.warnings.map(({ message }) => message).join() ?? '',
    /sandboxes\/written\/upper\/data and is not part/,
  );
  const cmd = 'cat /var/new; ls -A /var; test -e /etc/os-release || echo gone';
  const { json } = await api.post(`${boxes}/kept/exec`, { cmd });
  assert.equal(json.stdout, 'new\nnew\ngone\n', json.stderr);
  assert.equal(readFileSync(join(written, 'upper/data/work'), 'utf8'), 'of an hour');
  assert.match(
    daemon.output,
    /"recover.original","directory":"sandboxes\/no-module","reason":"[^"]*100-none/,
  );
  assert.match(daemon.output, /sandboxes\/no-snapshot","reason":"[^"]*active snapshot \\"lost\\" is missing/);
  assert.ok(existsSync(join(dataDir, 'sandboxes/no-module/.meta/layers')));
  assert.equal(readFileSync(join(dataDir, 'proxy-ca/ca.key'), 'utf8'), key);
  // Known by now: a second start takes nothing over again.
  await daemon.stop();
  await daemon.start();
  assert.equal(((await api.get(boxes)).json as SandboxInfo[]).length, 2);
  assert.equal((await api.delete(`${boxes}/written`)).status, 204);
  assert.equal((await api.get(`${boxes}/written`)).status, 404);
  assert.ok(!existsSync(written));
});
