/** A new release takes over what an earlier one runs: its launcher, its sandboxes and jobs, its egress process. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import type { JobInfo } from '@squash/contract/exec';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { TestDaemon } from '../support/daemon.ts';
import { earlierRelease, missingRelease } from '../support/earlier-release.ts';
import { cliCommand, cliEnvironment } from '../support/cli.ts';
import { processesOf } from '../support/leaks.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, lines, output, sandboxesPath } from './model.ts';

const hasPython = spawnSync('python3', ['-c', 'import pty']).status === 0;

/** Counts until it is told to end, a line each. */
const counting = 'i=0; until [ -e /end ]; do i=$((i+1)); echo $i; sleep 0.02; done';

async function jobOf(daemon: TestDaemon, id: number): Promise<JobInfo> {
  return (await daemon.call('GET', boxPath('old', `/jobs/${id}`))) as JobInfo;
}

/** The numbers that the job's log holds. */
async function counted(daemon: TestDaemon, id: number): Promise<readonly number[]> {
  const { text } = await daemon.request('GET', boxPath('old', `/jobs/${id}/logs`));
  return [...text.matchAll(/^data: (\d+)$/gm)].map(([, digits]) => Number(digits));
}

async function ready(daemon: TestDaemon, id: string): Promise<void> {
  await waitFor(`sandbox "${id}" to be ready`, async () => {
    const info = (await daemon.call('GET', boxPath(id))) as SandboxInfo;
    return info.state === 'ready';
  });
}

/** A command with a terminal: the daemon, or PID 1, knows no jobs yet. */
async function useTerminal(daemon: TestDaemon): Promise<void> {
  await using terminal = new Terminal(
    [...cliCommand, 'exec', '-t', 'old', '--', 'sh', '-c', 'stty size; exit 6'],
    {
      rows: 33,
      columns: 101,
      env: cliEnvironment(daemon),
    },
  );
  await terminal.see(/33 101/);
  assert.deepEqual(await terminal.end(), { status: 6 * 256, restored: true });
}

for (const ending of ['killed', 'stopped'] as const) {
  test(`sandboxes and jobs of protocol 1 go on when their daemon is ${ending} and this one takes over`, {
    skip: missingRelease('1'),
  }, async () => {
    await using daemon = await TestDaemon.start({ project: await earlierRelease('1') });
    for (const id of ['old', 'other']) await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
    await output(daemon, 'old', 'echo kept >/file');
    await daemon.call('POST', boxPath('other', '/snapshot'), { label: 'before' });
    const job = (await daemon.call('POST', boxPath('old', '/exec-bg'), { cmd: counting })) as JobInfo;
    await waitFor('the job to count', async () => (await output(daemon, 'old', 'ls /')) !== '');
    const egressBefore = processesOf(daemon.dataDir).find(({ command }) =>
      command.includes('egress/src/main'),
    );
    if (hasPython) await useTerminal(daemon);
    if (ending === 'killed') await daemon.kill();
    else await daemon.stop();
    daemon.upgrade();
    await daemon.start();

    for (const id of ['old', 'other']) await ready(daemon, id);
    assert.deepEqual(await lines(daemon, 'old', 'cat /file'), ['kept']);
    if (hasPython) await useTerminal(daemon);
    assert.equal((await jobOf(daemon, job.job_id)).status, 'running');
    await output(daemon, 'old', 'touch /end');
    await waitFor('the job to end', async () => (await jobOf(daemon, job.job_id)).status === 'done');
    const numbers = await counted(daemon, job.job_id);
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => index + 1),
    );
    // What starts sandboxes is still the earlier launcher.
    await daemon.call('POST', boxPath('other', '/restore'), { label: 'before' });
    await daemon.call('POST', sandboxesPath, { id: 'new', memory_mb: 64 });
    assert.deepEqual(await lines(daemon, 'new', 'echo fine'), ['fine']);
    await daemon.call('DELETE', boxPath('new'));
    await waitFor('the egress process to be this release’s', async () => {
      const { in_force } = await daemon.call('GET', '/v1/sandboxes/old/policy');
      const now = processesOf(daemon.dataDir).find(({ command }) => command.includes('egress/src/main'));
      return in_force === true && now !== undefined && now.pid !== egressBefore?.pid;
    });
    // The rest of the upgrade is a restart of everything.
    await daemon.cutPower();
    await daemon.start();
    for (const id of ['old', 'other']) await ready(daemon, id);
    assert.deepEqual(await lines(daemon, 'old', 'cat /file'), ['kept']);
  });
}
