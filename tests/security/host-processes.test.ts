/** Squash's own processes on the host: what they can't ask of the kernel, and in which order it ends them for want of memory. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { enterCommand } from '../../base/src/daemon-command.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { baseCgroupsOf, processes, processesOf } from '../support/leaks.ts';

const sandboxes = '/cgi-bin/api/sandboxes';

function scoreOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'));
}

/** As a service manager that protects the daemon; undone when the test ends. False where this machine forbids it. */
function protect(stack: DisposableStack): boolean {
  const own = scoreOf(process.pid);
  try {
    writeFileSync('/proc/self/oom_score_adj', '-500');
  } catch {
    // Without CAP_SYS_RESOURCE scores can only be raised.
    return false;
  }
  stack.defer(() => writeFileSync('/proc/self/oom_score_adj', String(own)));
  return true;
}

test('the launcher and its helper are the last to be ended for want of memory, sandboxes’ commands the first', async () => {
  using stack = new DisposableStack();
  const isSpared = protect(stack);
  await using daemon = await TestDaemon.start();
  const created = await daemon.request('POST', sandboxes, { id: 'dev', owner: 'a', layers: '000-base-test' });
  assert.equal(created.status, 201);
  const scores = ['squash-launch resident', 'host/src/main.ts', 'egress/src/main.ts'].map((part) => {
    const found = processesOf(daemon.dataDir).find(({ command }) => command.includes(part));
    assert.ok(found !== undefined, part);
    return scoreOf(found.pid);
  });
  assert.deepEqual(scores, isSpared ? [-470, -235, -235] : [0, 100, 100]);
  const lower = 'echo -1 >/proc/self/oom_score_adj; echo -1 >/proc/1/oom_score_adj';
  const cmd = `(${lower}) 2>/dev/null; cat /proc/1/oom_score_adj /proc/self/oom_score_adj`;
  const { json } = await daemon.request('POST', `${sandboxes}/dev/exec`, { cmd });
  assert.equal(json.stdout, '0\n500\n');
  if (!isOnVms) return;
  // Its memory is the monitor's, which is what a host without memory is to end.
  const outside = ['--listen-fd', 'qemu-system'].map((part) =>
    processesOf(daemon.dataDir).flatMap(({ pid, command }) => (command.includes(part) ? scoreOf(pid) : [])),
  );
  assert.deepEqual(outside, [[0], [500]]);
});

test('daemon, egress process, launcher and helper are filtered, and no signal opens a debugger', async () => {
  await using daemon = await TestDaemon.start();
  const found = processesOf(daemon.dataDir);
  const statusOf = (part: string) => {
    const pid = found.find(({ command }) => command.includes(part))?.pid;
    assert.ok(pid !== undefined, part);
    const text = readFileSync(`/proc/${pid}/status`, 'utf8');
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    const field = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+)$`, 'm').exec(text)?.[1]);
    return { filter: field('Seccomp'), isFixed: field('NoNewPrivs'), words };
  };
  for (const part of ['host/src/main.ts', 'egress/src/main.ts']) {
    const { filter, isFixed, words } = statusOf(part);
    assert.deepEqual([filter, isFixed], [2, 1], part);
    assert.ok(words.includes('--disable-sigusr1'), part);
  }
  assert.equal(statusOf('squash-launch resident').filter, 2);
  if (process.getuid?.() !== 0) return;
  const [base = ''] = baseCgroupsOf(daemon.dataDir);
  const title = `squash-launch helper ${base.slice(base.lastIndexOf('/') + 1)}`;
  const helpers = processes().filter(({ command }) => command === title);
  assert.ok(helpers.length >= 2);
  for (const { pid } of helpers) assert.match(readFileSync(`/proc/${pid}/status`, 'utf8'), /^Seccomp:\s*2$/m);
});

/** Each prints what the kernel says, whatever the tool makes of it. */
const attempts = `
  my %calls = (unshare => [272, 0x10000000], setns => [308, 0, 0], ptrace => [101, 0, 0, 0, 0], mount => [165, 0, 0, 0, 0, 0],
    keyctl => [250, 0, 0], bpf => [321, 0, 0, 0], userfaultfd => [323, 0], perf_event_open => [298, 0, 0, 0, 0, 0],
    init_module => [175, 0, 0, 0], kexec_load => [246, 0, 0, 0, 0], process_vm_readv => [310, 0, 0, 0, 0, 0, 0],
    fsopen => [430, 0, 0], open_tree => [428, 0, 0, 0], open_tree_attr => [467, 0, 0, 0, 0, 0], clone => [56, 0x10000000 | 17, 0, 0, 0, 0],
    tiocsti => [16, 0, 0x5412, 0], getppid => [110]);
  for (sort keys %calls) { my ($number, @words) = @{$calls{$_}}; my $got = syscall($number, @words);
    print "$_ ", $got < 0 ? $! + 0 : 0, "\\n"; }
`;

const isHere = process.arch === 'x64' ? false : 'the numbers are those of x86_64';

test('what the daemon starts is refused namespaces, mounts, tracing, keys and words in a terminal', {
  skip: isHere,
}, async () => {
  await using daemon = await TestDaemon.start();
  const { program, words } = enterCommand({ dataDir: daemon.dataDir, runDir: `${daemon.dataDir}/run` }, [
    'perl',
    '-e',
    attempts,
  ]);
  const said = execFileSync(program, words.slice(1), { encoding: 'utf8' }).trim().split('\n');
  const permitted = said.filter((line) => !line.endsWith(' 1'));
  assert.deepEqual(permitted, ['getppid 0']);
  assert.equal(said.length, 17);
});
