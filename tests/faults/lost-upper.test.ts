/** An upper that is not there when a sandbox starts: a power cut may have taken a new one, nothing may take an old one in silence. */
import assert from 'node:assert/strict';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { written } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { removeDataDirectory } from '../support/data-directory.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, output, sandboxesPath } from './model.ts';

const infoOf = async (daemon: TestDaemon, id: string): Promise<SandboxInfo> =>
  (await daemon.call('GET', boxPath(id))) as SandboxInfo;

const stateOf = (daemon: TestDaemon, id: string): Promise<string> =>
  waitFor(`a start of ${id}`, async () => {
    const { state } = await infoOf(daemon, id);
    return state === 'ready' || state === 'failed' ? state : undefined;
  });

const codesOf = async (daemon: TestDaemon, id: string): Promise<readonly string[]> =>
  (await infoOf(daemon, id)).warnings.map(({ code }) => code).filter((code) => code === 'upper_made');

async function startWithout(daemon: TestDaemon, ids: readonly string[], isReboot: boolean): Promise<void> {
  await daemon.cutPower();
  for (const id of ids) await removeDataDirectory(join(daemon.dataDir, 'sandboxes', id, 'uppers'));
  if (isReboot) writeFileSync(join(daemon.dataDir, 'run', 'boot-id'), 'another\n');
  await daemon.start();
}

/** As if it had been made an hour before, and used a moment ago. */
function age(daemon: TestDaemon, id: string): void {
  const database = new DatabaseSync(join(daemon.dataDir, 'squash.db'));
  database.prepare('UPDATE sandboxes SET upper_made_ms = upper_made_ms - 3600000 WHERE id = ?').run(id);
  database.close();
}

test('a lost upper is made anew and told where a power cut may have taken it, and a failure where not', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_UPPER: 'directory' } });
  for (const id of ['old', 'new', 'kept']) {
    await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
    await output(daemon, id, `echo text > /root/file${written}`);
  }
  await daemon.kill();
  age(daemon, 'old');
  await startWithout(daemon, ['old', 'new'], true);
  assert.equal(await stateOf(daemon, 'old'), 'failed');
  assert.equal(await stateOf(daemon, 'new'), 'ready');
  assert.equal(await stateOf(daemon, 'kept'), 'ready');
  assert.equal(await output(daemon, 'new', 'cat /root/file || echo none'), 'none\n');
  assert.equal(await output(daemon, 'kept', 'cat /root/file'), 'text\n');
  const told = await Promise.all(['old', 'new', 'kept'].map((id) => codesOf(daemon, id)));
  assert.deepEqual(told, [[], ['upper_made'], []]);
  assert.match(daemon.output, /"recover.upper_made".*"sandbox":"new"/);
  // What is restored has another upper.
  await daemon.call('POST', boxPath('new', '/snapshot'), { label: 'it' });
  await daemon.call('POST', boxPath('new', '/restore'), { label: 'it' });
  assert.deepEqual(await codesOf(daemon, 'new'), []);

  // The same boot: no power was lost since they were made.
  await startWithout(daemon, ['new'], false);
  assert.equal(await stateOf(daemon, 'new'), 'failed');
  assert.equal(await stateOf(daemon, 'kept'), 'ready');
});

test('a sandbox whose row a power cut took goes where nobody can have used it, and nowhere else', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_UPPER: 'directory' } });
  const ids = ['begun', 'used', 'kept'];
  for (const id of ids) await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
  const shadow = (id: string): string => join(daemon.dataDir, 'sandboxes', id, '.meta/sandbox.json');
  const isThere = (id: string): boolean => existsSync(join(daemon.dataDir, 'sandboxes', id));
  await output(daemon, 'used', `echo text > /root/file${written}`);
  await waitFor('the rows to be written beside them', () => ids.every((id) => existsSync(shadow(id))));
  await daemon.cutPower();
  for (const id of ['begun', 'used']) daemon.forgetRow(id);
  rmSync(shadow('begun'));
  // A crash of the daemon alone takes no row.
  await daemon.start();
  assert.deepEqual(ids.map(isThere), [true, true, true]);
  await daemon.cutPower();
  writeFileSync(join(daemon.dataDir, 'run', 'boot-id'), 'another\n');
  await daemon.start();
  assert.deepEqual(ids.map(isThere), [false, true, true]);
  assert.match(daemon.output, /recover\.unrecorded/);
  await daemon.call('POST', sandboxesPath, { id: 'begun', memory_mb: 64 });
  assert.equal(await output(daemon, 'begun', 'ls /root'), '');
});
