/** A sandbox whose PID 1 dies, is stopped, or does not obey; and its neighbours, which notice nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExecRecord, JobInfo } from '@squash/contract/exec';
import { limits } from '@squash/contract/limits';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, output, sandboxesPath } from './model.ts';

const hidden = isOnVms ? 'a microVM shows the host none of its commands' : false;

async function daemonWith(...ids: readonly string[]): Promise<TestDaemon> {
  const daemon = await TestDaemon.start();
  for (const id of ids) await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
  return daemon;
}

const infoOf = async (daemon: TestDaemon, id: string): Promise<SandboxInfo> =>
  (await daemon.call('GET', boxPath(id))) as SandboxInfo;

/** Process ids of the PID 1s of all sandboxes, on the host. */
function pidOnes(daemon: TestDaemon): readonly number[] {
  return processesOf(daemon.dataDir)
    .filter((entry) => entry.command.includes('--listen-fd'))
    .map((entry) => entry.pid);
}

/** The one that has the command with this word in its words as a descendant. */
function pidOneOf(daemon: TestDaemon, word: string): number {
  const all = processesOf(daemon.dataDir);
  const byPid = new Map(all.map((entry) => [entry.pid, entry]));
  const ones = new Set(pidOnes(daemon));
  for (
    let entry = all.find(({ command }) => command.includes(word));
    entry !== undefined;
    entry = byPid.get(entry.parent)
  ) {
    if (ones.has(entry.pid)) return entry.pid;
  }
  throw new Error(`no PID 1 above ${word}`);
}

const run = (daemon: TestDaemon, id: string, body: { cmd: string; timeout?: number }): Promise<ExecRecord> =>
  daemon.call('POST', boxPath(id, '/exec'), body) as Promise<ExecRecord>;

test('a dead PID 1 ends its commands, and the sandbox is back on its upper; its neighbour goes on', {
  skip: hidden,
}, async () => {
  await using daemon = await daemonWith('one', 'two');
  await output(daemon, 'one', 'echo kept > /file');
  const neighbour = (await daemon.call('POST', boxPath('two', '/exec-bg'), { cmd: 'sleep 600' })) as JobInfo;
  const record = run(daemon, 'one', { cmd: 'sleep 5173' });
  await waitFor('the command to run', () =>
    processesOf(daemon.dataDir).some(({ command }) => command.includes('sleep 5173')),
  );
  process.kill(pidOneOf(daemon, 'sleep 5173'), 'SIGKILL');
  const { exit_code: exitCode, reason } = await record;
  assert.deepEqual([exitCode, reason], [137, 'killed']);
  assert.equal(await output(daemon, 'one', 'cat /file'), 'kept\n');
  const job = (await daemon.call('GET', boxPath('two', `/jobs/${neighbour.job_id}`))) as JobInfo;
  assert.equal(job.status, 'running');
});

test('a sandbox whose PID 1 keeps dying is given up with a clear error and comes back by a restore', async () => {
  await using daemon = await daemonWith('one');
  await output(daemon, 'one', 'echo kept > /file');
  await daemon.call('POST', boxPath('one', '/snapshot'), { label: 'safe' });
  const killed = new Set<number>();
  await waitFor(
    'the sandbox to be given up',
    async () => {
      for (const pid of pidOnes(daemon)) {
        if (killed.has(pid)) continue;
        killed.add(pid);
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // It ended between the look and the signal.
        }
      }
      return (await infoOf(daemon, 'one')).state === 'failed';
    },
    60_000,
  );
  const refused = await daemon.request('POST', boxPath('one', '/exec'), { cmd: 'true' });
  assert.equal(refused.status, 400);
  assert.equal(refused.json.code, 'sandbox_not_ready');
  await daemon.call('POST', boxPath('one', '/restore'), { label: 'safe' });
  assert.equal(await output(daemon, 'one', 'cat /file'), 'kept\n');
});

test('a PID 1 that does not end a command in time is replaced, and the command is timed out', {
  skip: hidden,
}, async () => {
  await using daemon = await daemonWith('one');
  const record = run(daemon, 'one', { cmd: 'sleep 5174', timeout: 1 });
  await waitFor('the command to run', () =>
    processesOf(daemon.dataDir).some(({ command }) => command.includes('sleep 5174')),
  );
  // Stopped, it neither ends the command nor answers: what a hijacked one would choose to do.
  process.kill(pidOneOf(daemon, 'sleep 5174'), 'SIGSTOP');
  const { exit_code: exitCode, reason, timed_out: isTimedOut } = await record;
  assert.deepEqual([exitCode, reason, isTimedOut], [124, 'timed_out', true]);
  assert.equal(await output(daemon, 'one', 'echo back'), 'back\n');
});

test('more commands than a sandbox may run are refused, and none of the others suffers', async () => {
  await using daemon = await daemonWith('one');
  await output(daemon, 'one', 'mkfifo /gate');
  // Opening it waits for a writer, in one process that uses nothing.
  const gate = 'read line < /gate';
  const jobs: number[] = [];
  for (let count = 0; count < limits.execsRunningMax; count += 1) {
    jobs.push(((await daemon.call('POST', boxPath('one', '/exec-bg'), { cmd: gate })) as JobInfo).job_id);
  }
  const refused = await daemon.request('POST', boxPath('one', '/exec'), { cmd: 'true' });
  assert.deepEqual([refused.status, refused.json.code], [429, 'exec_limit']);
  await daemon.call('DELETE', boxPath('one', `/jobs/${jobs[0]}`));
  await output(daemon, 'one', 'echo go > /gate');
  await waitFor('all jobs to end', async () => {
    const list = (await daemon.call('GET', boxPath('one', '/jobs'))) as JobInfo[];
    return list.every((job) => job.status !== 'running');
  });
});

test('activate and restore end commands with their reason, and the sandbox is frozen whole for a snapshot', {
  skip: hidden,
}, async () => {
  await using daemon = await daemonWith('one');
  const record = run(daemon, 'one', { cmd: 'echo begun; sleep 5175' });
  await waitFor('the command to run', () =>
    processesOf(daemon.dataDir).some(({ command }) => command.includes('sleep 5175')),
  );
  await daemon.call('POST', boxPath('one', '/snapshot'), { label: 'a' });
  await daemon.call('POST', boxPath('one', '/restore'), { label: 'a' });
  const ended = await record;
  assert.deepEqual([ended.exit_code, ended.reason, ended.stdout], [137, 'layers_changed', 'begun\n']);
});

test('a command that takes too much memory is said to be killed for it, and the sandbox lives on', async () => {
  await using daemon = await TestDaemon.start();
  const info = (await daemon.call('POST', sandboxesPath, { id: 'one', memory_mb: 32 })) as SandboxInfo;
  if (info.warnings.some(({ code }) => code === 'memory_limit')) return;
  await output(daemon, 'one', 'true');
  // A shell that doubles a variable until there is no more.
  const ended = await run(daemon, 'one', { cmd: 'a=xxxxxxxx; while :; do a="$a$a"; done' });
  assert.deepEqual([ended.exit_code, ended.reason], [137, 'oom_killed']);
  const plain = await run(daemon, 'one', { cmd: 'kill -9 $$' });
  assert.deepEqual([plain.exit_code, plain.reason], [137, 'signaled']);
});

test('a lifetime that is over takes the sandbox and everything in it', async () => {
  await using daemon = await TestDaemon.start();
  await daemon.call('POST', sandboxesPath, { id: 'short', memory_mb: 64, max_lifetime_s: 1 });
  await waitFor(
    'the sandbox to be reaped',
    async () => (await daemon.request('GET', boxPath('short'))).status === 404,
  );
});
