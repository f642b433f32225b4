/**
 * What outlives the daemon: sandboxes, commands, jobs, logs; over a crash, a polite stop, and a reboot.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ExecRecord, JobInfo } from '@squash/contract/exec';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { squashOk } from '../support/cli.ts';
import { Store } from '../../host/src/store/store.ts';
import { isOnVms, seenAs, written } from '../support/backend.ts';
import { type DaemonOptions, TestDaemon } from '../support/daemon.ts';
import { sandboxCgroupsOf, processesOf, signalAll } from '../support/leaks.ts';
import { needsRoot } from '../support/small-disk.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, output, sandboxesPath } from './model.ts';

async function daemonWith(id: string, options?: DaemonOptions): Promise<TestDaemon> {
  const daemon = await TestDaemon.start(options);
  await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
  return daemon;
}

const jobOf = async (daemon: TestDaemon, id: string, job: number): Promise<JobInfo> =>
  (await daemon.call('GET', boxPath(id, `/jobs/${job}`))) as JobInfo;

async function startJob(daemon: TestDaemon, id: string, cmd: string): Promise<number> {
  return ((await daemon.call('POST', boxPath(id, '/exec-bg'), { cmd, timeout: 600 })) as JobInfo).job_id;
}

/** Text of a job's log that has ended. */
async function logOf(daemon: TestDaemon, id: string, job: number): Promise<string> {
  return (await daemon.request('GET', boxPath(id, `/jobs/${job}/logs`))).text;
}

test('a job and an unanswered command go on while no daemon runs, and the next one has all of both', async () => {
  await using daemon = await daemonWith('dev');
  const job = await startJob(daemon, 'dev', 'while [ ! -e /go ]; do usleep 10000; done; seq 1 20000; exit 7');
  const cmd = 'touch /begun; while [ ! -e /go ]; do usleep 10000; done; echo done';
  const answer = daemon.request('POST', boxPath('dev', '/exec'), { cmd }).catch(() => undefined);
  await waitFor('the command to run', async () => (await output(daemon, 'dev', 'ls /')).includes('begun'));
  await daemon.kill();
  assert.equal(await answer, undefined);
  await daemon.start();
  assert.equal((await jobOf(daemon, 'dev', job)).status, 'running');
  await output(daemon, 'dev', 'touch /go');
  const ended = await waitFor('the job to end', async () => {
    const info = await jobOf(daemon, 'dev', job);
    return info.status === 'running' ? undefined : info;
  });
  assert.deepEqual([ended.status, ended.exit_code, ended.reason], ['done', 7, 'exited']);
  const text = await logOf(daemon, 'dev', job);
  assert.match(text, /data: 20000\n/);
  assert.equal(text.match(/^data: \d+$/gm)?.length, 20_000);
  const records = (await daemon.call('GET', boxPath('dev', '/logs'))) as ExecRecord[];
  const record = records.find((each) => each.cmd === cmd);
  assert.deepEqual([record?.exit_code, record?.stdout], [0, 'done\n']);
});

test('a polite stop lets a request in progress finish and leaves jobs running', async () => {
  await using daemon = await daemonWith('dev');
  const job = await startJob(daemon, 'dev', 'sleep 600');
  const cmd = 'touch /begun; while [ ! -e /stopping ]; do usleep 10000; done; echo finished';
  const answer = daemon.request('POST', boxPath('dev', '/exec'), { cmd });
  await waitFor('the command to run', async () => (await output(daemon, 'dev', 'ls /')).includes('begun'));
  const writer = await startJob(daemon, 'dev', 'sleep 1; touch /stopping');
  await daemon.stop();
  assert.equal(((await answer).json as ExecRecord).stdout, 'finished\n');
  await daemon.start();
  assert.equal((await jobOf(daemon, 'dev', job)).status, 'running');
  assert.equal((await jobOf(daemon, 'dev', writer)).status, 'done');
  await daemon.call('DELETE', boxPath('dev', `/jobs/${job}`));
  assert.equal((await jobOf(daemon, 'dev', job)).reason, 'killed');
});

test('after a reboot sandboxes start again on their upper and their commands are lost', async () => {
  await using daemon = await daemonWith('dev');
  await output(daemon, 'dev', `echo kept > /root/file${written}`);
  const job = await startJob(daemon, 'dev', 'sleep 600');
  await waitFor('its own file', () => existsSync(join(daemon.dataDir, 'sandboxes/dev/.meta/sandbox.json')));
  await daemon.cutPower();
  const halfWritten = ['sandboxes/dev/.meta/sandbox.json', 'secrets.json'].map((name) =>
    join(daemon.dataDir, `${name}.0123456789ab.new`),
  );
  for (const path of halfWritten) writeFileSync(path, '{');
  await daemon.start();
  assert.deepEqual(
    halfWritten.filter((path) => existsSync(path)),
    [],
  );
  await waitFor('the sandbox to be back', async () => {
    const info = (await daemon.call('GET', boxPath('dev'))) as SandboxInfo;
    return info.state === 'ready';
  });
  assert.equal(await output(daemon, 'dev', 'cat /root/file'), 'kept\n');
  const info = await jobOf(daemon, 'dev', job);
  assert.deepEqual([info.status, info.exit_code, info.reason], ['killed', 137, 'lost']);
});

test('limits that a machine can’t enforce are warned of or refused, and warned of no longer than it is so', {
  skip: isOnVms ? 'a microVM holds its memory and its processes itself' : needsRoot,
}, async () => {
  const hide = 'umount --lazy --recursive /sys/fs/cgroup && echo hidden && exec sleep 600';
  const place = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', hide], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    await once(place.stdout, 'data');
    await using poor = await daemonWith('dev', { beside: place.pid ?? 0 });
    const warned = (await poor.call('GET', boxPath('dev'))) as SandboxInfo;
    assert.deepEqual(
      warned.warnings.filter(({ code }) => code !== 'upper_limit').map(({ code }) => code),
      ['memory_limit', 'cpu_limit', 'pids_limit'],
    );
    await poor.stop();
    await poor.start({ SQUASH_REQUIRE_LIMITS: '1' });
    const refused = await poor.request('POST', sandboxesPath, { id: 'strict', memory_mb: 64 });
    assert.equal(refused.json.code, 'limits_unenforceable', refused.text);
    assert.match(refused.json.message ?? refused.json.error, /memory_mb is not enforced/);
    assert.equal((await poor.request('GET', boxPath('strict'))).status, 404);
    await poor.stop();
    signalAll(poor.dataDir, 'SIGTERM', ({ command }) => command.includes('squash-launch resident'));
    await waitFor(
      'the launcher to end',
      () => !processesOf(poor.dataDir).some(({ command }) => command.includes('squash-launch')),
    );
    await using rich = await TestDaemon.at(poor.dataDir);
    await rich.start();
    const fresh = (await rich.call('POST', sandboxesPath, { id: 'new', memory_mb: 64 })) as SandboxInfo;
    const now = (await rich.call('GET', boxPath('dev'))) as SandboxInfo;
    assert.deepEqual(now.warnings, fresh.warnings);
  } finally {
    place.kill('SIGKILL');
  }
});

test('a second daemon on the same data directory is refused and harms nothing', async () => {
  await using daemon = await daemonWith('dev');
  await using second = await TestDaemon.at(daemon.dataDir);
  await second.launch();
  await second.ended();
  assert.match(second.output, /data_locked/);
  assert.equal(await output(daemon, 'dev', 'echo alive'), 'alive\n');
});

test('whatever run directory it names, no daemon starts beside what runs, and none of it is harmed', async () => {
  await using daemon = await daemonWith('dev');
  const job = await startJob(daemon, 'dev', 'sleep 600');
  const elsewhere = { SQUASH_RUN: join(daemon.dataDir, 'elsewhere') };
  const refused = async (env: Readonly<Record<string, string>>, why: RegExp): Promise<void> => {
    await using second = await TestDaemon.at(daemon.dataDir);
    await second.launch(env);
    await second.ended();
    assert.match(second.output, why);
    assert.match(second.output, /data_locked/);
  };
  await refused(elsewhere, /live beside the run directory/);
  assert.equal((await jobOf(daemon, 'dev', job)).status, 'running');
  await daemon.stop();
  await refused(elsewhere, /live beside the run directory/);
  await daemon.start();
  assert.equal((await jobOf(daemon, 'dev', job)).status, 'running');
  // Before it notices: else it starts again by itself, with another launcher.
  const { pid = 0 } = daemon;
  process.kill(pid, 'SIGSTOP');
  signalAll(daemon.dataDir, 'SIGKILL', ({ command }) => command.includes('squash-launch resident'));
  for (const env of [elsewhere, {}]) await refused(env, /a daemon works in .* its launcher has ended/);
  process.kill(pid, 'SIGCONT');
  // Nothing runs: another run directory is as good as the first.
  await daemon.stop();
  signalAll(daemon.dataDir, 'SIGKILL', ({ command }) => command.includes('egress/src/main.ts'));
  await daemon.start(elsewhere);
  await waitFor('the sandbox to be back', async () => {
    const info = (await daemon.call('GET', boxPath('dev'))) as SandboxInfo;
    return info.state === 'ready';
  });
  const pidOnes = processesOf(daemon.dataDir).filter(({ command }) => command.includes('--listen-fd'));
  assert.equal(pidOnes.length, 1);
  await daemon.stop();
  // Asked without the variable: what runs is found where it was started.
  assert.match(await squashOk(daemon, ['stop', '--all', '--json']), /"ended": ?1/);
});

test('a start that fails late leaves a running sandbox alone, and nothing where there is none', async () => {
  await using daemon = await daemonWith('dev');
  await output(daemon, 'dev', 'echo kept > /file');
  await using elsewhere = await TestDaemon.start();
  await daemon.stop();
  const port = { SQUASH_PORT: String(elsewhere.port) };
  await daemon.launch(port);
  await daemon.ended();
  assert.match(daemon.output, /Cannot listen on .*another program listens there/);
  assert.ok(processesOf(daemon.dataDir).length > 0);
  await daemon.start();
  assert.equal(await output(daemon, 'dev', 'cat /file'), 'kept\n');
  await daemon.kill();
  // As after a reboot: its sandbox is to be started again, but not by a daemon that can't serve.
  for (const { pid } of processesOf(daemon.dataDir)) process.kill(pid, 'SIGKILL');
  await waitFor('everything to be down', () => processesOf(daemon.dataDir).length === 0);
  await daemon.launch(port);
  await daemon.ended();
  assert.equal(daemon.output.match(/Cannot listen on/g)?.length, 2);
  await waitFor('everything to be down', () => processesOf(daemon.dataDir).length === 0);
});

test('a sandbox that outlived its row is ended, and one without a row on the disk is left alone', async () => {
  await using daemon = await daemonWith('dev');
  await output(daemon, 'dev', 'echo precious > /file');
  await daemon.stop();
  daemon.forgetRow('dev');
  await daemon.start();
  assert.deepEqual(await daemon.call('GET', sandboxesPath), []);
  await waitFor('the sandbox to be ended', () => sandboxCgroupsOf(daemon.dataDir).length === 0);
  assert.match(daemon.output, /recover\.orphan/);
  assert.match(daemon.output, /recover\.stranger/);
  const refused = await daemon.request('POST', sandboxesPath, { id: 'dev' });
  assert.equal(refused.status, 400);
  await daemon.stop();
  const report = await daemon.repair();
  assert.equal(report['sandboxes'], 1);
  await daemon.start();
  await waitFor('the sandbox to be back', async () => {
    const info = (await daemon.call('GET', boxPath('dev'))) as SandboxInfo;
    return info.state === 'ready';
  });
  assert.equal(await output(daemon, 'dev', 'cat /file'), 'precious\n');
});

test('a database that is missing, empty or was never used beside sandboxes refuses the start, and repair brings them back', async () => {
  await using daemon = await daemonWith('dev');
  await output(daemon, 'dev', 'echo precious > /file');
  const job = await startJob(daemon, 'dev', 'sleep 600');
  await daemon.stop();
  const path = join(daemon.dataDir, 'squash.db');
  const lost = {
    missing: () => undefined,
    empty: () => writeFileSync(path, ''),
    unused: () => new Store(path)[Symbol.dispose](),
  };
  for (const [what, make] of Object.entries(lost)) {
    await daemon.forgetDatabase();
    make();
    const { uid, gid } = statSync(daemon.dataDir);
    if (existsSync(path)) chownSync(path, uid, gid);
    await daemon.launch();
    await daemon.ended();
    assert.match(daemon.output.slice(daemon.output.lastIndexOf('daemon.failed')), /database_missing/, what);
  }
  // What ran goes on: nothing was decided about it.
  assert.ok(processesOf(daemon.dataDir).some(({ command }) => command.includes(seenAs('sleep 600'))));
  assert.equal((await daemon.repair())['sandboxes'], 1);
  await daemon.start();
  await waitFor('the sandbox to be back', async () => {
    const info = (await daemon.call('GET', boxPath('dev'))) as SandboxInfo;
    return info.state === 'ready';
  });
  assert.equal(await output(daemon, 'dev', 'cat /file'), 'precious\n');
  assert.ok((await startJob(daemon, 'dev', 'true')) > job);
});

test('a database that can not be read refuses the start by its code, and repair brings everything back', async () => {
  await using daemon = await daemonWith('dev');
  await output(daemon, 'dev', 'echo precious > /file');
  await daemon.call('POST', boxPath('dev', '/snapshot'), { label: 'safe' });
  const job = await startJob(daemon, 'dev', 'sleep 600');
  await daemon.stop();
  await daemon.damageDatabase();
  await daemon.launch();
  await daemon.ended();
  assert.match(daemon.output, /database_corrupt/);
  const report = await daemon.repair();
  assert.equal(report['sandboxes'], 1);
  assert.match(String(report['kept']), /squash\.db\.broken/);
  await daemon.start();
  const info = await waitFor('the sandbox to be back', async () => {
    const found = (await daemon.call('GET', boxPath('dev'))) as SandboxInfo;
    return found.state === 'ready' ? found : undefined;
  });
  assert.deepEqual(
    info.snapshots.map(({ label }) => label),
    ['safe'],
  );
  assert.equal(await output(daemon, 'dev', 'cat /file'), 'precious\n');
  // Numbers go on behind everything that may have been used.
  const again = await startJob(daemon, 'dev', 'true');
  assert.ok(again > job);
  await daemon.call('POST', boxPath('dev', '/restore'), { label: 'safe' });
  assert.equal(await output(daemon, 'dev', 'cat /file'), 'precious\n');
});
