/** Commands with jobs: what stops them stops, is told, and goes on with a signal, whatever the program does to PID 1's helpers. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { guestWindowBytes } from '@squash/contract/guest/frames';
import { waitFor } from '../../../tests/support/wait.ts';
import { drain, guestIsMissing, RealGuest, specOf } from '../../../tests/support/real-guest.ts';
import type { GuestExec, GuestExecSpec } from './guest.ts';

const options = { skip: guestIsMissing };
const [sigterm, sigcont, sigusr1, sigtstp] = [15, 18, 10, 20];
const ctrlZ = Buffer.from('\u001a');

const withJobs = (argv: string[], change: Partial<GuestExecSpec> = {}): GuestExecSpec =>
  specOf(argv, {
    tty: { rows: 24, columns: 80, hasJobs: true },
    stdin: 'pipe',
    env: { PATH: '/usr/bin:/bin', TERM: 'dumb' },
    ...change,
  });

/** What was written until the command was stopped. */
async function stopOf(exec: GuestExec): Promise<string> {
  let written = '';
  for (;;) {
    const { value } = await exec.events().next();
    if (value?.type === 'stopped') return written;
    assert.ok(value?.type === 'output', `the command ended; it wrote: ${written}`);
    written += value.data.toString('latin1');
    exec.ack(Buffer.byteLength(written, 'latin1'), 0);
  }
}

async function see(exec: GuestExec, text: string): Promise<void> {
  for (let written = ''; !written.includes(text); ) {
    const { value } = await exec.events().next();
    assert.ok(value?.type === 'output', `no "${text}"; there is: ${written}`);
    written += value.data.toString('latin1');
  }
}

interface ProcessState {
  readonly pid: number;
  readonly name: string;
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
}

/** Undefined where it is gone. */
async function processOf(pid: number): Promise<ProcessState | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const [, name = '', rest = ''] = /\((.*)\) (.*)/s.exec(stat) ?? [];
  const [state = '', ...numbers] = rest.split(' ');
  const [parent = 0, group = 0, session = 0] = numbers.map(Number);
  return stat === '' ? undefined : { pid, name, state, parent, group, session };
}

async function helpersOf(exec: GuestExec): Promise<readonly ProcessState[]> {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger);
  const all = await Promise.all(pids.map(processOf));
  return all.filter(
    (each) => each !== undefined && each.session === exec.pid && each.name === 'squash-jobs',
  ) as readonly ProcessState[];
}

test('Ctrl-Z stops a command with jobs, which is told, and SIGCONT continues it', options, async () => {
  await using guest = await RealGuest.start();
  // The second one is not started by a copy of PID 1.
  for (const word of ['first', 'second']) {
    const exec = await guest.client.exec(withJobs(['cat']));
    for (let times = 0; times < 2; times += 1) {
      await exec.writeStdin(Buffer.from(`${word}\r`));
      await see(exec, `${word}\r\n${word}\r\n`);
      await exec.writeStdin(ctrlZ);
      await stopOf(exec);
      assert.equal((await processOf(exec.pid))?.state, 'T');
      exec.signal(sigcont);
    }
    await exec.writeStdin(Buffer.from('\u0004'));
    assert.equal((await drain(exec)).outcome.exitCode, 0);
  }
});

test('what a command wrote comes before the word that it was stopped', options, async () => {
  await using guest = await RealGuest.start();
  const exec = await guest.client.exec(
    withJobs(['sh', '-c', 'seq 1 9000; kill -TSTP $$; echo back; exit 7']),
  );
  const lines = (await stopOf(exec)).trimEnd().split('\r\n');
  assert.deepEqual([lines.length, lines.at(-1)], [9000, '9000']);
  exec.signal(sigcont);
  const { stdout, outcome } = await drain(exec);
  assert.deepEqual([stdout, outcome.exitCode], ['back\r\n', 7]);
});

test(
  'what a terminal still holds of it, for want of acknowledgments, comes before the word, too',
  options,
  async () => {
    await using guest = await RealGuest.start();
    const script = 'stty -echo; head -c 66000 /dev/zero | tr "\\\\0" x; kill -TSTP $$; exit 7';
    const exec = await guest.client.exec(withJobs(['sh', '-c', script]));
    let written = 0;
    const read = async (): Promise<string | undefined> => {
      const { value } = await exec.events().next();
      if (value?.type === 'output') written += value.data.length;
      return value?.type;
    };
    while (written < guestWindowBytes) assert.equal(await read(), 'output');
    await waitFor('it to stop', async () => (await processOf(exec.pid))?.state === 'T');
    exec.ack(written, 0);
    while (written < 66_000) assert.equal(await read(), 'output');
    assert.equal(await read(), 'stopped');
    exec.signal(sigcont);
    assert.equal((await drain(exec)).outcome.exitCode, 7);
  },
);

test('a stopped command goes on with any signal, and at its time’s end', options, async () => {
  await using guest = await RealGuest.start();
  const script = 'trap "echo used; exit 3" USR1; kill -TSTP $$; while :; do sleep 0.02; done';
  const used = await guest.client.exec(withJobs(['sh', '-c', script]));
  await stopOf(used);
  used.signal(sigusr1);
  assert.equal((await drain(used)).outcome.exitCode, 3);
  const ended = await guest.client.exec(withJobs(['sh', '-c', 'kill -TSTP $$; sleep 60']));
  await stopOf(ended);
  ended.signal(sigtstp);
  ended.signal(sigterm);
  assert.equal((await drain(ended)).outcome.signal, sigterm);
  const late = await guest.client.exec(withJobs(['sh', '-c', 'kill -TSTP $$; sleep 60'], { timeoutMs: 500 }));
  await stopOf(late);
  const { outcome } = await drain(late);
  assert.deepEqual([outcome.timedOut, outcome.signal], [true, sigterm]);
});

test('who comes to a stopped command is told', options, async () => {
  await using guest = await RealGuest.start();
  const exec = await guest.client.exec(withJobs(['sh', '-c', 'kill -TSTP $$; echo back']));
  await stopOf(exec);
  exec.close();
  const next = await guest.client.attach(exec.execId, { stdout: 0, stderr: 0 });
  assert.equal(await stopOf(next), '');
  next.signal(sigcont);
  assert.equal((await drain(next)).stdout, 'back\r\n');
});

test('without jobs Ctrl-Z does nothing', options, async () => {
  await using guest = await RealGuest.start();
  const tty = { rows: 24, columns: 80 };
  const exec = await guest.client.exec(withJobs(['sh', '-c', 'kill -TSTP $$; cat'], { tty }));
  assert.deepEqual(await helpersOf(exec), []);
  await exec.writeStdin(Buffer.from('\u001aword\r\u0004'));
  assert.match((await drain(exec)).stdout, /\r\nword\r\n$/);
});

test('its two helpers are gone behind it, however it ends', options, async () => {
  await using guest = await RealGuest.start();
  for (const end of ['exit 5', 'kill -9 $$', 'kill -9 0', 'sleep 60 & exit 5']) {
    const exec = await guest.client.exec(withJobs(['sh', '-c', `read -r line; ${end}`]));
    const helpers = await helpersOf(exec);
    assert.equal(helpers.length, 2, end);
    assert.equal(helpers.filter(({ group }) => group === exec.pid).length, 1, end);
    await exec.writeStdin(Buffer.from('\r'));
    const { outcome } = await drain(exec);
    assert.equal(outcome.exitCode ?? outcome.signal, end.includes('exit') ? 5 : 9, end);
    for (const { pid } of helpers) {
      await waitFor(`${end}: ${pid} to go`, async () => (await processOf(pid)) === undefined);
    }
  }
});

test(
  'a command whose helpers are killed or halted ends as itself, and is never stopped for good',
  options,
  async () => {
    await using guest = await RealGuest.start();
    for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
      for (const which of [0, 1]) {
        const script = 'trap "exit 6" HUP; read -r line; kill -TSTP $$; exit 5';
        const exec = await guest.client.exec(withJobs(['sh', '-c', script]));
        const helper = (await helpersOf(exec)).find(({ group }) => (group === exec.pid) === (which === 1));
        assert.ok(helper);
        process.kill(helper.pid, signal);
        const isGone = async () => ['Z', undefined].includes((await processOf(helper.pid))?.state);
        if (signal === 'SIGKILL') await waitFor('the helper to go', isGone);
        await exec.writeStdin(Buffer.from('\r'));
        if (signal === 'SIGSTOP') {
          await stopOf(exec);
          exec.signal(sigcont);
        }
        assert.equal((await drain(exec)).outcome.exitCode, 5);
        // One that stands still goes all the same.
        if (which === 1)
          await waitFor('the helper to go', async () => (await processOf(helper.pid)) === undefined);
        else if (signal === 'SIGSTOP') process.kill(helper.pid, 'SIGCONT');
      }
    }
  },
);

test('a command that is stopped when its helpers are killed is hung up', options, async () => {
  await using guest = await RealGuest.start();
  const exec = await guest.client.exec(withJobs(['sh', '-c', 'trap "exit 6" HUP; kill -TSTP $$; exit 5']));
  await stopOf(exec);
  // The other one dies with it.
  const keeper = (await helpersOf(exec)).find(({ group }) => group !== exec.pid);
  assert.ok(keeper);
  process.kill(keeper.pid, 'SIGKILL');
  assert.equal((await drain(exec)).outcome.exitCode, 6);
});
