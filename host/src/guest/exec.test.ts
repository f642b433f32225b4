/** Commands through the client and a real PID 1: what they get, how they end, what is reported. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '@squash/contract/errors';
import { guestWindowBytes } from '@squash/contract/guest/frames';
import { GuestClient } from './client.ts';
import type { GuestExecSpec, GuestOutcome } from './guest.ts';
import { drain, guestIsMissing, type Ran, RealGuest, specOf } from '../../../tests/support/real-guest.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const options = { skip: guestIsMissing };
const asRoot = { skip: guestIsMissing || (process.getuid?.() === 0 ? false : 'needs root') };

async function run(guest: RealGuest, argv: string[], change: Partial<GuestExecSpec> = {}): Promise<Ran> {
  return drain(await guest.client.exec(specOf(argv, change)));
}

const ending = ({ exitCode, signal, timedOut }: GuestOutcome) => ({ exitCode, signal, timedOut });
const exited = (exitCode: number) => ({ exitCode, signal: undefined, timedOut: false });
const killed = (signal: number) => ({ exitCode: undefined, signal, timedOut: false });
const withCode = (code: string, text: RegExp) => (error: unknown) =>
  error instanceof AppError && error.code === code && text.test(error.message);

test('exec keeps stdout and stderr apart and tells the exit code', options, async () => {
  await using guest = await RealGuest.start();
  const ran = await run(guest, ['sh', '-c', 'echo out; echo err >&2; exit 3']);
  assert.equal(ran.stdout, 'out\n');
  assert.equal(ran.stderr, 'err\n');
  assert.deepEqual(ending(ran.outcome), exited(3));
  assert.deepEqual([ran.outcome.stdoutBytes, ran.outcome.stderrBytes], [4, 4]);
  assert.ok(ran.outcome.rssMaxKib > 100);
});

test('exec tells every exit code exactly', options, async () => {
  await using guest = await RealGuest.start();
  for (let first = 0; first < 256; first += 32) {
    const codes = Array.from({ length: 32 }, (_, i) => first + i);
    const ran = await Promise.all(codes.map((code) => run(guest, ['sh', '-c', `exit ${code}`])));
    assert.deepEqual(
      ran.map(({ outcome }) => ending(outcome)),
      codes.map(exited),
    );
  }
});

test('exec tells every signal that can end a command', options, async () => {
  await using guest = await RealGuest.start();
  // CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG and WINCH do not end; 32 and 33 belong to the C library.
  const endless = [17, 18, 19, 20, 21, 22, 23, 28, 32, 33];
  const signals = Array.from({ length: 64 }, (_, i) => i + 1).filter((signo) => !endless.includes(signo));
  for (const signo of signals) {
    const exec = await guest.client.exec(specOf(['sleep', '60']));
    exec.signal(signo);
    assert.deepEqual(ending((await drain(exec)).outcome), killed(signo));
  }
});

test(
  'exec gives a command its environment, directory, session and limits, and nothing else',
  options,
  async () => {
    await using guest = await RealGuest.start();
    const env = { PATH: '/usr/bin:/bin', EMPTY: '', 'WITH SPACE': 'a=b\nc', UMLAUT: 'ä' };
    const told = await run(guest, ['env', '-0'], { env });
    const pairs = Object.entries(env).map(([name, value]) =>
      Buffer.from(`${name}=${value}\0`).toString('latin1'),
    );
    assert.equal(told.stdout, pairs.join(''));
    assert.equal((await run(guest, ['pwd'], { cwd: '/usr/lib' })).stdout, '/usr/lib\n');
    const status = (await run(guest, ['cat', '/proc/self/status'])).stdout;
    for (const name of ['SigPnd', 'SigBlk', 'SigIgn', 'SigCgt'])
      assert.match(status, new RegExp(`${name}:\\t0{16}\n`));
    assert.equal((await run(guest, ['ls', '/proc/self/fd'])).stdout, '0\n1\n2\n3\n'); // 3 is the directory it lists.
    assert.equal((await run(guest, ['cat', '/proc/self/oom_score_adj'])).stdout, '500\n');
    const own = await readFile('/proc/self/oom_score_adj', 'utf8');
    assert.equal(await readFile(`/proc/${guest.pid}/oom_score_adj`, 'utf8'), own, 'PID 1 goes last');
    const limits = (await run(guest, ['cat', '/proc/self/limits'], { openFilesMax: 77 })).stdout;
    assert.match(limits, /Max open files +77 +77 /);
    assert.match(limits, /Max core file size +1 +1 /);
    const ids = (await run(guest, ['sh', '-c', 'echo $$; ps -o sid=,pgid= -p $$ | tr -s " " "\\n"'])).stdout;
    const [pid, ...groups] = ids.split('\n').filter((line) => line !== '');
    assert.deepEqual(groups, [pid, pid]);
    assert.equal((await run(guest, ['cat'])).stdout, ''); // stdin is empty
  },
);

test('exec becomes user and group without the groups of PID 1', asRoot, async () => {
  await using guest = await RealGuest.start();
  await run(guest, ['true']);
  const ran = await run(guest, ['sh', '-c', 'id -u; id -g; id -G'], { uid: 12_345, gid: 23_456 });
  assert.equal(ran.stdout, '12345\n23456\n23456\n');
});

test('exec refuses what can not be started, with the reason, and runs nothing', options, async () => {
  await using guest = await RealGuest.start();
  const directory = await mkdtemp(join(tmpdir(), 'squash-exec-'));
  try {
    const plain = join(directory, 'plain');
    const noProgram = join(directory, 'no-program');
    await writeFile(plain, 'text', { mode: 0o644 });
    await writeFile(noProgram, 'text', { mode: 0o755 });
    const fails = (argv: string[], text: RegExp, change: Partial<GuestExecSpec> = {}) =>
      assert.rejects(guest.client.exec(specOf(argv, change)), withCode('exec_failed', text));
    await fails(['no-such-program'], /"no-such-program" can't be started: the program: .*\(ENOENT\)/);
    await fails(['/no/such/program'], /ENOENT/);
    await fails([''], /ENOENT/);
    await fails([plain], /EACCES/);
    await fails([noProgram], /ENOEXEC/);
    await fails(['touch', join(directory, 'ran')], /the working directory: .*\(ENOENT\)/, {
      cwd: '/no/such/dir',
    });
    await fails(['true'], /the working directory: .*\(ENOTDIR\)/, { cwd: plain });
    await fails(['true'], /the program: .*\(ENOENT\)/, { env: { PATH: '/no/such/dir' } });
    await assert.rejects(readFile(join(directory, 'ran')), { code: 'ENOENT' });
    await fails(['true', 'x'.repeat(262_144)], /too large/);
    assert.deepEqual(await guest.client.list(), []);
    assert.deepEqual(ending((await run(guest, ['true'])).outcome), exited(0));
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('exec takes arguments of any bytes and nearly a frame of them', options, async () => {
  await using guest = await RealGuest.start();
  const odd = Buffer.from([0x0a, 0xff, 0x20, 0x27, 0x01]);
  assert.equal(
    (await drain(await guest.client.exec(specOf(['printf', '%s', odd])))).stdout,
    odd.toString('latin1'),
  );
  const many = Array.from({ length: 4000 }, (_, i) => `argument-number-${i}-${'x'.repeat(30)}`);
  const ran = await run(guest, ['sh', '-c', 'echo $#', 'sh', ...many]);
  assert.equal(ran.stdout, '4000\n');
});

test('exec refuses an id that is known', options, async () => {
  await using guest = await RealGuest.start();
  const spec = specOf(['sleep', '60']);
  const exec = await guest.client.exec(spec);
  await assert.rejects(guest.client.exec(spec), withCode('exec_failed', /in use/));
  assert.deepEqual(await guest.client.list(), [{ execId: spec.execId, pid: exec.pid, running: true }]);
  exec.signal(9);
  await drain(exec);
});

test('a command that runs out of time gets TERM, then KILL, with its group', options, async () => {
  await using guest = await RealGuest.start();
  const timedOut = await run(guest, ['sleep', '60'], { timeoutMs: 50 });
  assert.deepEqual(ending(timedOut.outcome), { exitCode: undefined, signal: 15, timedOut: true });
  const caught = await run(guest, ['sh', '-c', 'trap "echo bye; exit 4" TERM; sleep 60 & wait'], {
    timeoutMs: 50,
  });
  assert.deepEqual(
    [caught.stdout, ending(caught.outcome)],
    ['bye\n', { exitCode: 4, signal: undefined, timedOut: true }],
  );
  const deaf = await run(guest, ['sh', '-c', 'trap "" TERM; while :; do sleep 60; done'], { timeoutMs: 50 });
  assert.deepEqual(ending(deaf.outcome), { exitCode: undefined, signal: 9, timedOut: true });
  const deafChild = await run(
    guest,
    ['sh', '-c', 'sh -c "trap \\"\\" TERM; while :; do sleep 1; done" & echo $!; wait'],
    { timeoutMs: 200 },
  );
  assert.equal(ending(deafChild.outcome).timedOut, true);
  await waitFor(
    'the child that ignores TERM is gone',
    async () => !(await isAlive(Number(deafChild.stdout))),
  );
});

test('a stopped command that runs out of time ends', options, async () => {
  await using guest = await RealGuest.start();
  const exec = await guest.client.exec(specOf(['sleep', '60'], { timeoutMs: 100 }));
  exec.signal(19);
  assert.deepEqual(ending((await drain(exec)).outcome), { exitCode: undefined, signal: 15, timedOut: true });
});

/** Whoever opens the file for another purpose waits until its standard input ends. */
const leaseHolder = `
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open(sys.argv[1], os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
`;

test('who waits for the opening of a program holds up nobody else', options, async () => {
  await using guest = await RealGuest.start();
  const program = join(guest.directory, 'held');
  await copyFile('/bin/echo', program);
  const holder = spawn('python3', ['-c', leaseHolder, program], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(holder.stdout, 'data');
  // The first of a PID 1 is forked; of the next one waits in its memory, and is not to have the words of those behind it.
  await run(guest, ['true']);
  const waiting = ['one', 'two', 'three'].map((word) => run(guest, [program, word], { env: { OF: word } }));
  for (const word of ['four', 'five'])
    assert.equal((await run(guest, ['echo', word], { env: { OF: word } })).stdout, `${word}\n`);
  holder.stdin.end();
  const told = (await Promise.all(waiting)).map(({ stdout }) => stdout);
  assert.deepEqual(told, ['one\n', 'two\n', 'three\n']);
});

test('a background child neither delays the exit nor dies of it', options, async () => {
  await using guest = await RealGuest.start();
  const file = join(guest.directory, 'late');
  const script = `(sleep 0.3; i=0; while [ $i -lt 3000 ]; do echo ${'x'.repeat(64)} || exit 1; i=$((i+1)); done; echo fine >${file}) & echo now`;
  const ran = await run(guest, ['sh', '-c', script]);
  assert.equal(ran.stdout, 'now\n');
  await waitFor(
    'the child has written more than a pipe holds and lives',
    async () => (await readFile(file, 'utf8').catch(() => '')) === 'fine\n',
  );
});

test(
  'what a command wrote before its end arrives even where a background child writes on',
  options,
  async () => {
    await using guest = await RealGuest.start();
    const script = 'yes & head -c 300000 /dev/zero | tr "\\0" a >&2; kill -9 $$';
    const exec = await guest.client.exec(specOf(['sh', '-c', script]));
    const ran = await drain(exec);
    assert.equal(ran.stderr, 'a'.repeat(300_000));
    assert.deepEqual(ending(ran.outcome), killed(9));
    await run(guest, ['sh', '-c', `kill -9 -${exec.pid}`]);
  },
);

test(
  'what is said behind an acknowledgment counts also where that brings the end of a command whose children write on',
  options,
  async () => {
    await using guest = await RealGuest.start();
    let socket: Duplex | undefined;
    const client = new GuestClient({ connect: async () => (socket = await guest.connect()) });
    const script = `(sleep 0.3; exec yes) & head -c ${guestWindowBytes + 5000} /dev/zero; kill -9 $$`;
    const exec = await client.exec(specOf(['sh', '-c', script]));
    let bytes = 0;
    for await (const event of exec.events()) {
      if (event.type === 'output') bytes += event.data.length;
      if (bytes === guestWindowBytes) break;
    }
    // Until its child has filled the pipe.
    await sleep(1_000);
    socket?.cork();
    exec.ack(guestWindowBytes, 0);
    exec.release();
    socket?.uncork();
    await waitFor('the command to be forgotten', async () => (await guest.client.list()).length === 0);
  },
);

test('PID 1 reaps orphans, however they were made', asRoot, async () => {
  await using guest = await RealGuest.start({ isPidOne: true });
  const script =
    'i=0; while [ $i -lt 50 ]; do (setsid sh -c "sleep 0.05 & exit 0" &) ; i=$((i+1)); done; exit 9';
  assert.deepEqual(ending((await run(guest, ['sh', '-c', script])).outcome), exited(9));
  await waitFor('only PID 1 and ps are left', async () => {
    const { stdout } = await run(guest, ['sh', '-c', 'ls -d /proc/[0-9]* | wc -l']);
    return Number(stdout) <= 4; // PID 1, sh, ls, wc
  });
});

test('root inside can not signal PID 1', asRoot, async () => {
  await using guest = await RealGuest.start({ isPidOne: true });
  for (const signo of [1, 2, 9, 15, 17, 19]) await run(guest, ['sh', '-c', `kill -${signo} 1`]);
  await guest.client.info();
  assert.equal((await run(guest, ['echo', 'alive'])).stdout, 'alive\n');
});

test('no command begins in PID 1’s memory where the kernel opens that to its user', asRoot, async () => {
  const directory = await mkdtemp(join(tmpdir(), 'squash-dumpable-'));
  const suidDumpable = join(directory, 'value');
  for (const [value, threads] of [
    ['0', 'squash-init squash-start'],
    ['1', 'squash-init'],
    ['2', 'squash-init squash-start'],
  ] as const) {
    await writeFile(suidDumpable, `${value}\n`);
    await using guest = await RealGuest.start({ isPidOne: true, suidDumpable });
    await run(guest, ['/bin/true']);
    const { stdout } = await run(guest, ['sh', '-c', 'cat /proc/1/task/*/comm']);
    assert.equal(stdout.trim().replaceAll('\n', ' '), threads, value);
  }
  await rm(directory, { recursive: true });
});

async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat !== '' && !/\) Z/.test(stat);
}

test('of two commands that start at once the one that can not does not end the other', options, async () => {
  await using guest = await RealGuest.start();
  await run(guest, ['/bin/true']);
  // So many words that the first one may be over while they are read.
  const missing = ['/no/such', ...Array.from({ length: 10 }, () => 'x'.repeat(9_000))];
  for (let round = 0; round < 400; round += 1) {
    const fails = assert.rejects(guest.client.exec(specOf(missing)), { code: 'exec_failed' });
    const [ran] = await Promise.all([run(guest, ['/bin/true']), fails]);
    assert.deepEqual(ending(ran.outcome), exited(0));
  }
});
