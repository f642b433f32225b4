/**
 * On a disk without a free block what makes room, ends or mends things works: removing a sandbox, `squash stop`, a
 * daemon's start, `squash doctor`, `--repair`. A sound database is never taken for a broken one there.
 */
import assert from 'node:assert/strict';
import { chownSync, copyFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { limits } from '@squash/contract/limits';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { type CliEnd, squash } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { needsRoot, type SmallDisk, smallExt4 } from '../support/small-disk.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, output, sandboxesPath } from './model.ts';

/** The launcher unpacks a layer where 64 MiB are free beside it. */
const diskBytes = 112 * 1_048_576;

/** A daemon on a small disk, with sandboxes that hold a file each, and the reserve taken. */
async function crowded(disk: SmallDisk, env: Readonly<Record<string, string>>): Promise<TestDaemon> {
  const daemon = await TestDaemon.start({ parent: disk.path, env: { SQUASH_UPPER_LIMIT_MB: '16', ...env } });
  try {
    for (const id of ['one', 'two', 'three', 'four']) {
      await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
      await output(daemon, id, `echo ${id} > /file`);
    }
    return daemon;
  } catch (error) {
    await daemon[Symbol.asyncDispose]();
    throw error;
  }
}

/** The disk has room, and the daemon has all that it wants to keep. */
async function settle(disk: SmallDisk, { dataDir }: TestDaemon): Promise<void> {
  disk.free();
  const reserve = join(dataDir, 'reserve');
  await waitFor(
    'the reserve to be whole',
    () => statSync(reserve, { throwIfNoEntry: false })?.size === limits.reserveBytes,
    2 * limits.reserveLookMs,
  );
  // Written within a second of the last change, which a repair goes by.
  for (const id of readdirSync(join(dataDir, 'sandboxes')))
    await waitFor('the shadow', () => existsSync(join(dataDir, 'sandboxes', id, '.meta/sandbox.json')));
}

async function fill(disk: SmallDisk, daemon: TestDaemon): Promise<void> {
  await settle(disk, daemon);
  disk.fill();
}

function ok(end: CliEnd): string {
  assert.equal(end.code, 0, `${end.stdout.toString()}\n${end.stderr}`);
  return end.stdout.toString();
}

async function ids(daemon: TestDaemon): Promise<readonly string[]> {
  return ((await daemon.call('GET', sandboxesPath)) as SandboxInfo[]).map(({ id }) => id);
}

const noBroken = ({ dataDir }: TestDaemon): void =>
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.includes('broken') || name.includes('.new')),
    [],
  );

// They mostly wait for the reserve to be whole again.
describe('a full disk', { concurrency: 3 }, () => {
  for (const kind of ['directory', 'image', 'tmpfs'] as const) {
    test(`removing, stopping, starting and looking work (${kind})`, {
      skip: needsRoot,
    }, async () => {
      using disk = smallExt4(diskBytes);
      await using daemon = await crowded(disk, { SQUASH_UPPER: kind });
      const command = (...words: readonly string[]): Promise<CliEnd> =>
        squash(daemon, words, { env: { SQUASH_PORT: String(daemon.port), SQUASH_UPPER: kind } });
      await fill(disk, daemon);
      const removed = await daemon.request('DELETE', boxPath('one'));
      assert.equal(removed.status, 204, removed.text);
      await fill(disk, daemon);
      ok(await command('stop'));
      const before = JSON.parse(ok(await command('doctor', '--json'))) as {
        host: readonly { name: string }[];
      };
      const overlay = before.host.find(({ name }) => name === 'kernel_overlay');
      assert.match(JSON.stringify(overlay), /the kernel's overlayfs/);
      assert.deepEqual(JSON.parse(ok(await command('doctor', '--repair', '--json'))), {
        sandboxes: 0,
        execs: 0,
        kept: null,
        problems: [],
      });
      noBroken(daemon);
      ok(await command('serve', '--detach'));
      assert.deepEqual(await ids(daemon), ['four', 'three', 'two']);
      ok(await command('rm', '--yes', 'two'));
      ok(await command('stop'));
      await daemon.start();
      // As after a power cut: nothing of it runs.
      await fill(disk, daemon);
      await daemon.kill();
      for (const { pid } of processesOf(daemon.dataDir)) process.kill(pid, 'SIGKILL');
      await waitFor('everything to be down', () => processesOf(daemon.dataDir).length === 0);
      await daemon.start();
      assert.equal((await daemon.request('DELETE', boxPath('three'))).status, 204);
      disk.free();
      await daemon.call('POST', sandboxesPath, { id: 'new', memory_mb: 64 });
      assert.deepEqual(await ids(daemon), ['four', 'new']);
    });
  }
});

test('a change of a policy leaves the reserve to what makes room', { skip: needsRoot }, async () => {
  using disk = smallExt4(diskBytes);
  await using daemon = await crowded(disk, { SQUASH_UPPER: 'directory' });
  await fill(disk, daemon);
  const allow = Array.from({ length: 200 }, (_none, at) => `${'x'.repeat(50)}-${at}.example`);
  let last = 200;
  for (let tries = 0; last === 200 && tries < 300; tries += 1) {
    const path = '/v1/sandboxes/one/policy';
    last = (await daemon.request('PUT', path, { allow: [...allow, `t${tries}.example`] })).status;
  }
  assert.equal(last, 507);
  assert.equal(statSync(join(daemon.dataDir, 'reserve')).size, limits.reserveBytes);
});

test('a repair on a full disk rebuilds what is broken, and leaves it as it is where it has no room at all', {
  skip: needsRoot,
}, async () => {
  using disk = smallExt4(diskBytes);
  await using daemon = await crowded(disk, { SQUASH_UPPER: 'directory' });
  await settle(disk, daemon);
  await daemon.stop();
  await daemon.damageDatabase();
  const reserve = join(daemon.dataDir, 'reserve');
  const aside = `${disk.path}.reserve`;
  copyFileSync(reserve, aside);
  rmSync(reserve);
  disk.fill();
  const broken = readFileSync(join(daemon.dataDir, 'squash.db'));
  const refused = await squash(daemon, ['doctor', '--repair']);
  assert.match(refused.stderr, /disk_full/);
  assert.deepEqual(readFileSync(join(daemon.dataDir, 'squash.db')), broken);
  noBroken(daemon);
  disk.free();
  copyFileSync(aside, reserve);
  chownSync(reserve, statSync(daemon.dataDir).uid, statSync(daemon.dataDir).gid);
  rmSync(aside);
  disk.fill();
  assert.equal((await daemon.repair())['sandboxes'], 4);
  await daemon.start();
  assert.deepEqual(await ids(daemon), ['four', 'one', 'three', 'two']);
});

test('a sandbox is removed where nothing is left in reserve: its own files make the room', {
  skip: needsRoot,
}, async () => {
  using disk = smallExt4(diskBytes);
  await using daemon = await crowded(disk, { SQUASH_UPPER: 'directory' });
  await output(daemon, 'one', 'head -c 8000000 /dev/urandom > /large');
  await settle(disk, daemon);
  // A new log, which has no room yet.
  await daemon.stop();
  await daemon.start();
  await settle(disk, daemon);
  rmSync(join(daemon.dataDir, 'reserve'));
  disk.fill();
  const removed = await daemon.request('DELETE', boxPath('one'));
  assert.equal(removed.status, 204, `${removed.text}\n${daemon.output.slice(-3_000)}`);
  await daemon.kill();
  await daemon.start();
  assert.deepEqual(await ids(daemon), ['four', 'three', 'two']);
});
