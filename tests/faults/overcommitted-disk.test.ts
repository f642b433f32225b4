/**
 * Sandboxes that together may write more than the host's file system holds: whoever is late sees a full disk, and nobody
 * loses a byte that he synced because somebody else wrote.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ExecRecord } from '@squash/contract/exec';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { TestDaemon } from '../support/daemon.ts';
import { needsProjectQuota, needsRoot, smallExt4 } from '../support/small-disk.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, lines, output, sandboxesPath } from './model.ts';

const megabyte = 1_048_576;
/** An emulated machine (tests/vm) writes a part of what any other does: the disk is full all the same. */
const every = Number(process.env['ATTEMPTS_EVERY'] ?? 1);
/** Writes and syncs one numbered file after another, each of its own content, and notes which were accepted and synced. */
const careful =
  `cd /; i=0; while [ $i -lt ${60 / every} ]; do i=$((i+1)); ` +
  'yes "$i" | head -c 150000 >part.$i; yes "$i" | head -c 150000 | cmp -s - part.$i && sync part.$i && echo $i >>synced && sync synced; done 2>/dev/null; true';
/** Again and again: what is free is shared out in parts. */
const greedy = `n=0; while [ $n -lt ${12 / every} ]; do n=$((n+1)); dd if=/dev/zero of=/fill.$n bs=1M count=200; sleep 0.2; done; sync; echo`;

/** The files whose content is not what was synced. */
async function damaged(daemon: TestDaemon, id: string, synced: readonly string[]): Promise<string> {
  const cmd = `cd /; for i in ${synced.join(' ')}; do yes "$i" | head -c 150000 | cmp -s - part.$i || echo $i; done`;
  return output(daemon, id, cmd);
}

/** Undefined where the daemon has no room for its record; the command ran all the same. */
async function run(daemon: TestDaemon, id: string, cmd: string): Promise<ExecRecord | undefined> {
  const answer = await daemon.request('POST', boxPath(id, '/exec'), { cmd, timeout: 120 });
  if (answer.status === 507) return undefined;
  assert.equal(answer.status, 200, answer.text);
  return answer.json as ExecRecord;
}

/** As health says it, and the sandbox itself. */
async function isLow(daemon: TestDaemon): Promise<boolean> {
  const health = await daemon.call('GET', '/cgi-bin/health');
  const box = (await daemon.call('GET', boxPath('victim'))) as SandboxInfo;
  const isSaid = box.warnings.some(({ code }) => code === 'disk_low');
  assert.equal(health.problems?.[0]?.code === 'disk_low', isSaid);
  return isSaid;
}

async function allReady(daemon: TestDaemon): Promise<void> {
  await waitFor('every sandbox to be ready', async () => {
    const list = (await daemon.call('GET', sandboxesPath)) as SandboxInfo[];
    return list.every((info) => info.state === 'ready');
  });
}

/** By their numbers, which begin where Squash's do. */
function areProjects(daemon: TestDaemon, ids: readonly string[]): boolean {
  const numbers = ids.map((id) => {
    const line = execFileSync('lsattr', ['-pd', join(daemon.dataDir, 'sandboxes', id, 'uppers/1/data')]);
    return Number.parseInt(line.toString(), 10);
  });
  return new Set(numbers).size === ids.length && numbers.every((number) => number >= 0x40000000);
}

for (const kind of ['image', 'directory', 'tmpfs', 'project'] as const) {
  // A kind that the daemon chooses by itself where it is to be had is asked of nobody.
  const wanted: Readonly<Record<string, string>> = kind === 'project' ? {} : { SQUASH_UPPER: kind };
  const sharesRoom = kind === 'directory' || kind === 'project';
  test(`nothing synced is lost when neighbours fill the disk that all share: ${kind}`, {
    skip: needsRoot || (kind === 'project' && needsProjectQuota()),
  }, async () => {
    using disk = smallExt4(240 * megabyte, { hasProjectQuota: kind === 'project' });
    if (sharesRoom) disk.take(24 * megabyte);
    await using daemon = await TestDaemon.start({
      parent: disk.path,
      env: { ...wanted, SQUASH_UPPER_LIMIT_MB: '100' },
    });
    for (const id of ['victim', 'one', 'two', 'three'])
      await daemon.call('POST', sandboxesPath, { id, memory_mb: 256 });
    if (kind === 'project') assert.ok(areProjects(daemon, ['victim', 'one', 'two', 'three']));
    const writing = run(daemon, 'victim', careful);
    const neighbours = await Promise.all(['one', 'two', 'three'].map((id) => run(daemon, id, greedy)));
    if (kind === 'image') {
      const said = neighbours.map((record) => record?.stderr ?? 'no record');
      for (const text of said) assert.match(text, /No space left on device/);
      assert.doesNotMatch(said.join(''), /Input\/output|Read-only/);
    }
    await writing;
    assert.equal(await isLow(daemon), kind !== 'tmpfs');
    // Room that a neighbour gives back can be written again.
    // In directories the host's own room is what they took: no command can be recorded, so the host gives some back.
    if (sharesRoom) disk.free();
    else await output(daemon, 'one', 'rm /fill.*; sync');
    await waitFor('the victim to write again', async () => {
      const record = await run(daemon, 'victim', 'head -c 100000 /dev/zero >/again && sync /again');
      return record?.exit_code === 0;
    });
    const synced = await lines(daemon, 'victim', 'cat /synced');
    assert.ok(synced.length > 0, 'nothing was ever synced');
    assert.equal(await damaged(daemon, 'victim', synced), '');
    if (kind === 'tmpfs') return;
    // As after a reboot: every file system is mounted anew.
    await daemon.cutPower();
    await daemon.start();
    await allReady(daemon);
    assert.equal(await damaged(daemon, 'victim', synced), '');
  });
}
