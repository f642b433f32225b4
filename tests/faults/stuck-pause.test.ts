/** Sandboxes that can't be made to stand still: that takes seconds, in which everybody else is served. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { TestDaemon } from '../support/daemon.ts';
import { cgroupsOf, processesOf } from '../support/leaks.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, sandboxesPath } from './model.ts';

/**
 * Processes that no freezer stops: they wait for the lock of a directory, which one holds that waits for a file system in
 * user space that nobody serves. All end with the one that has its device open.
 */
class Unstoppable implements AsyncDisposable {
  readonly #mounted = mkdtempSync(join(tmpdir(), ownedPrefix('stuck')));
  readonly #holder = spawn(
    'bash',
    [
      '-c',
      `exec 3<>/dev/fuse; mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 squash-test "$1" || exit
      for name in a b c; do mkdir "$1/$name" 3>&- 2>/dev/null & echo $!; read; done`,
      'bash',
      this.#mounted,
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  readonly #pids: number[] = [];

  async start(): Promise<readonly number[]> {
    for await (const line of createInterface(this.#holder.stdout)) {
      const pid = Number(line);
      this.#pids.push(pid);
      await waitFor('it to wait', () => /^State:\s+D/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')));
      if (this.#pids.length === 3) break;
      this.#holder.stdin.write('\n');
    }
    return this.#pids.slice(1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#holder, 'exit');
    this.#holder.kill('SIGKILL');
    await ended;
    await waitFor('them to end', () => !this.#pids.some((pid) => existsSync(`/proc/${pid}`)));
    execFileSync('umount', ['-l', this.#mounted]);
    rmdirSync(this.#mounted);
  }
}

/** Of sandboxes: what holds a PID 1. */
function freezersOf({ dataDir }: TestDaemon): readonly string[] {
  const ones = processesOf(dataDir).filter(({ command }) => command.includes('--listen-fd'));
  return cgroupsOf(dataDir).filter((path) => {
    if (!existsSync(join(path, 'freezer.state'))) return false;
    const members = readFileSync(join(path, 'cgroup.procs'), 'utf8').split('\n');
    return ones.some(({ pid }) => members.includes(`${pid}`));
  });
}

test('a sandbox is created while others are to be paused that do not come to stand still', async (t) => {
  await using daemon = await TestDaemon.start();
  for (const id of ['one', 'two']) await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
  const groups = freezersOf(daemon);
  if (groups.length === 0) {
    t.skip('no freezer of version 1 of control groups: nothing else is known here that it can not stop');
    return;
  }
  assert.equal(groups.length, 2);
  await using unstoppable = new Unstoppable();
  const pids = await unstoppable.start();
  for (const [at, group] of groups.entries()) writeFileSync(join(group, 'cgroup.procs'), `${pids[at]}`);
  const order: string[] = [];
  const pauses = ['one', 'two'].map(async (id) => {
    const { json } = await daemon.request('POST', `/v1/sandboxes/${id}/pause`);
    order.push(json.code);
  });
  await waitFor('the first to be tried', () =>
    groups.some((group) => readFileSync(join(group, 'freezer.state'), 'utf8') !== 'THAWED\n'),
  );
  await daemon.call('POST', sandboxesPath, { id: 'calm', memory_mb: 64 });
  order.push('calm');
  await Promise.all(pauses);
  assert.deepEqual(order, ['calm', 'launch_failed', 'launch_failed']);
  for (const id of ['one', 'two']) assert.equal((await daemon.call('GET', boxPath(id))).state, 'ready');
});
