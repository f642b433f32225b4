/** What dies beside the daemon comes again by itself, and is said until then; what dies again and again is given up aloud. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { SocketDirectory } from '@squash/base/socket-directory';
import type { Problem } from '@squash/contract/daemon';
import type { JobInfo } from '@squash/contract/exec';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { squash } from '../support/cli.ts';
import { written } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf, signalAll } from '../support/leaks.ts';
import { needsRoot } from '../support/small-disk.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, output, sandboxesPath } from './model.ts';

/** From the death to the answer of a daemon that has all its parts, on a loaded machine. */
const mendedMsMax = 30_000;

const isLauncher = ({ command }: { readonly command: string }): boolean =>
  command.includes('squash-launch resident');
const launcherOf = (daemon: TestDaemon): number | undefined =>
  processesOf(daemon.dataDir).find(isLauncher)?.pid;

/** Not before the next one is there: a daemon has not yet noticed at once that its launcher was killed. */
function isReplaced(daemon: TestDaemon, before: number | undefined): boolean {
  const now = launcherOf(daemon);
  return now !== undefined && now !== before;
}

/** How long a part may hang here before it is ended. */
const hungMs = 10_000;
/** Until it is said that one does not answer: a look's time, and another one's. */
const saidMsMax = 20_000;

async function daemonWithJob(
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly daemon: TestDaemon; readonly job: number }> {
  const daemon = await TestDaemon.start({ env });
  await daemon.call('POST', sandboxesPath, { id: 'dev', memory_mb: 64 });
  await output(daemon, 'dev', `echo kept > /root/file${written}`);
  const started = await daemon.call('POST', boxPath('dev', '/exec-bg'), { cmd: 'sleep 600', timeout: 700 });
  return { daemon, job: (started as JobInfo).job_id };
}

const jobOf = async (daemon: TestDaemon, job: number): Promise<JobInfo> =>
  (await daemon.call('GET', boxPath('dev', `/jobs/${job}`))) as JobInfo;

/** What health says; undefined while nobody answers. */
async function problemsOf(daemon: TestDaemon): Promise<readonly string[] | undefined> {
  try {
    const health = (await daemon.call('GET', '/cgi-bin/health')) as {
      readonly problems?: readonly Problem[];
    };
    return (health.problems ?? []).map(({ code }) => code);
  } catch {
    // Between two daemons.
    return undefined;
  }
}

/** Whether everybody who can be asked says it. */
async function isSaidEverywhere(daemon: TestDaemon, code: string): Promise<boolean> {
  if ((await problemsOf(daemon))?.includes(code) !== true) return false;
  const doctor = await squash(daemon, ['doctor']);
  if (doctor.code !== 1 || !doctor.stdout.toString().includes(`${code}: `)) return false;
  // It may have ended meanwhile, and another one have begun.
  const metrics = await daemon.request('GET', '/metrics').catch(() => undefined);
  return metrics?.text.includes(`\nsquash_problem{code="${code}"} 1\n`) === true;
}

/** Connects until the queue of a launcher that accepts nobody is full. */
async function fillQueue(daemon: TestDaemon, open: DisposableStack): Promise<void> {
  const directory = open.use(new SocketDirectory(join(daemon.dataDir, 'run')));
  const fill = async (): Promise<never> => {
    for (;;) {
      const socket = await directory.connect('launch.sock');
      open.defer(() => socket.destroy());
      socket.on('error', () => undefined);
    }
  };
  await assert.rejects(fill, { code: 'EAGAIN' });
}

// They mostly wait.
describe('a part beside the daemon', { concurrency: 3 }, () => {
  for (const [done, signal, isFull] of [
    ['is killed', 'SIGKILL', false],
    ['hangs', 'SIGSTOP', false],
    ['hangs and takes no connection more', 'SIGSTOP', true],
  ] as const) {
    test(`a launcher that ${done} comes again with its sandboxes, and their commands say that they were lost`, async () => {
      const { daemon, job } = await daemonWithJob({ SQUASH_HUNG_MS: String(hungMs) });
      await using _daemon = daemon;
      const before = launcherOf(daemon);
      signalAll(daemon.dataDir, signal, isLauncher);
      using connections = new DisposableStack();
      if (isFull) await fillQueue(daemon, connections);
      const code = 'launcher_unavailable';
      // One that is killed is replaced before a command has started.
      const isSaid = async () =>
        signal === 'SIGSTOP'
          ? await isSaidEverywhere(daemon, code)
          : (await problemsOf(daemon))?.includes(code);
      await waitFor('it to be said', isSaid, saidMsMax);
      await waitFor(
        'all to be well again',
        async () => (await problemsOf(daemon))?.length === 0 && isReplaced(daemon, before),
        mendedMsMax,
      );
      await waitFor('the sandbox to be back', async () => {
        const info = (await daemon.call('GET', boxPath('dev'))) as SandboxInfo;
        return info.state === 'ready';
      });
      assert.equal(await output(daemon, 'dev', 'cat /root/file'), 'kept\n');
      const info = await jobOf(daemon, job);
      assert.deepEqual([info.status, info.exit_code, info.reason], ['killed', 137, 'lost']);
      await daemon.call('POST', sandboxesPath, { id: 'new', memory_mb: 64 });
      assert.equal(await output(daemon, 'new', 'echo works'), 'works\n');
    });
  }

  test('a launcher that is killed whenever it comes is given up with a word', async () => {
    await using daemon = await TestDaemon.start();
    await waitFor(
      'it to be given up',
      () => {
        signalAll(daemon.dataDir, 'SIGKILL', isLauncher);
        return daemon.pid === undefined;
      },
      120_000,
    );
    assert.match(daemon.output, /started again 5 times within a minute/);
    // Nothing is left to be tidied by hand.
    await daemon.start();
    await waitFor('it to be well', async () => (await problemsOf(daemon))?.length === 0);
  });

  for (const done of ['are all killed', 'hang'] as const) {
    test(`helpers that ${done} come again, and nobody else notices`, { skip: needsRoot }, async () => {
      const { daemon, job } = await daemonWithJob({ SQUASH_HUNG_MS: String(hungMs) });
      await using _daemon = daemon;
      const { pid } = daemon;
      const launcher = launcherOf(daemon);
      if (done === 'hang') daemon.signalHelpers('SIGSTOP');
      else await daemon.killHelpers();
      const isSaid = async () => (await problemsOf(daemon))?.includes('helper_unavailable');
      await waitFor('it to be said', isSaid, saidMsMax);
      await waitFor('it to be well', async () => (await problemsOf(daemon))?.length === 0, mendedMsMax);
      // Its upper is an image, which nobody but a helper makes.
      await daemon.call('POST', sandboxesPath, { id: 'new', memory_mb: 64 });
      assert.equal(await output(daemon, 'new', 'echo works'), 'works\n');
      assert.equal((await jobOf(daemon, job)).status, 'running');
      assert.deepEqual([daemon.pid, launcherOf(daemon)], [pid, launcher]);
    });
  }

  test('helpers that hang when their launcher is killed are no obstacle to the next one', {
    skip: needsRoot,
  }, async () => {
    const { daemon } = await daemonWithJob();
    await using _daemon = daemon;
    const before = launcherOf(daemon);
    daemon.signalHelpers('SIGSTOP');
    signalAll(daemon.dataDir, 'SIGKILL', isLauncher);
    await waitFor(
      'all to be well again',
      async () => (await problemsOf(daemon))?.length === 0 && isReplaced(daemon, before),
      2 * mendedMsMax,
    );
    await daemon.call('POST', sandboxesPath, { id: 'new', memory_mb: 64 });
    assert.equal(await output(daemon, 'new', 'echo works'), 'works\n');
  });

  test('a keeper that is killed takes the daemon along, and sandboxes and commands go on', async () => {
    const { daemon, job } = await daemonWithJob();
    await using _daemon = daemon;
    const { pid = 0 } = daemon;
    signalAll(daemon.dataDir, 'SIGKILL', ({ command }) => command.includes('squash-launch keeper'));
    await daemon.ended();
    await waitFor('the daemon to end', () => !processesOf(daemon.dataDir).some((entry) => entry.pid === pid));
    await daemon.start();
    assert.equal((await jobOf(daemon, job)).status, 'running');
  });
});
