/**
 * What a box is refused of this machine's paths, as it is told and as a policy is proposed for it; and that programs which ask for a great
 * deal, for paths that are none, or die while they ask, cost nobody but themselves.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BoxPlace } from '../support/box-place.ts';
import { type CliEnd } from '../support/cli.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;
const python = existsSync('/usr/bin/python3') ? false : 'this machine has no python3';

interface Learnt {
  readonly policy: { readonly fs: Record<string, string> };
  readonly left_out: readonly { readonly what: string; readonly why: string }[];
  readonly truncated: boolean;
}

describe('paths that boxes are refused', { skip }, () => {
  const { homedir: home } = userInfo();
  let place: BoxPlace;
  let scratch: string;
  let work: string;
  let keys: string;

  before(() => {
    place = new BoxPlace('box-learn', 'project');
    ({ scratch, work } = place);
    keys = join(home, '.aws', 'squash-box-learn');
    for (const directory of [join(work, 'many'), join(work, 'shown'), keys])
      mkdirSync(directory, { recursive: true });
    for (const name of [
      'notes',
      'denied',
      'looked',
      'shown/old',
      'many/1',
      'many/2',
      'many/3',
      'many/4',
      'many/5',
    ])
      writeFileSync(join(work, name), `${name}\n`);
    writeFileSync(join(keys, 'key'), 'a key\n');
  });

  after(async () => {
    await place[Symbol.asyncDispose]();
    rmSync(keys, { recursive: true, force: true });
  });

  const box = async (...words: readonly string[]): Promise<CliEnd> => await place.box(...words);
  const done = async (...words: readonly string[]): Promise<string> => await place.printed(...words);
  const pathEvents = async (name: string): Promise<readonly string[]> =>
    (await done('events', '--kind', 'path', name))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) =>
        line
          .replace(/^\S+ path +/, '')
          .replaceAll(work, 'W')
          .replaceAll(home, '~'),
      );
  const learn = async (...words: readonly string[]): Promise<Learnt> =>
    JSON.parse(await done('learn', '--json', ...words)) as Learnt;

  const script = `cat ../notes ../missing ../denied ${'"$HOME"'}/.aws/squash-box-learn/key
test -e ../looked; (echo x >../shown/old; echo x >../shown/new) 2>/dev/null
cat ../shown/old; echo new >written; cat written; true`;

  it('tells which were refused, and by which rule', async () => {
    const rules = ['--deny', '../denied', '--ro', '../shown'];
    await done('run', '--keep', '--trace-paths', '--name', 'told', ...rules, '--', 'sh', '-c', script);
    assert.deepEqual(await pathEvents('told'), [
      'read W/notes refused: hidden; would need ro',
      'read W/denied refused: deny',
      'read ~/.aws/squash-box-learn/key refused: hidden',
      'look W/looked refused: hidden; would need ro',
      'write W/shown/old refused: ro; would need cow',
      'write W/shown/new (W/shown) refused: ro; would need cow',
    ]);
    // Of a box that was stopped, too, and of the next daemon.
    await waitFor('the daemon to end', () => processesOf(join(scratch, 'data')).length === 0, 30_000);
    assert.equal((await pathEvents('told')).length, 6);
    const { policy, left_out: leftOut } = await learn('told');
    const short = work.replace(home, '~');
    assert.deepEqual(policy.fs, {
      [`${short}/looked`]: 'ro',
      [`${short}/notes`]: 'ro',
      [`${short}/shown`]: 'cow',
    });
    assert.deepEqual(
      leftOut.map(({ what, why }) => [what.replace(work, 'W').replace(home, '~'), why]),
      [
        ['W/denied', 'a rule says "deny"'],
        ['~/.aws/squash-box-learn/key', 'keys and state of the system are kept there'],
      ],
    );
    await done('rm', 'told');
  });

  it('proposes what makes the next run succeed, and grants nothing by itself', async () => {
    const reads =
      'cat ../many/1 ../many/2 ../many/3 ../many/4 && cat ../notes && echo x >../shown/old && cat ../shown/old';
    const file = join(scratch, 'wanted.json');
    const policies: string[] = [];
    for (let run = 0; run < 5; run++) {
      const words = policies.flatMap((each) => ['--policy', each]);
      const end = await box('learn', '--rm', '-o', `${file}${run}`, ...words, '--', 'sh', '-c', reads);
      if (end.code === 0) {
        assert.equal(end.stdout.toString(), 'many/1\nmany/2\nmany/3\nmany/4\nnotes\nx\n');
        break;
      }
      policies.push(`${file}${run}`);
    }
    const fs = policies.map((each) => (JSON.parse(readFileSync(each, 'utf8')) as Learnt['policy']).fs);
    const short = work.replace(home, '~');
    // A shell goes no further than the first that fails.
    assert.deepEqual(fs, [
      { [`${short}/many`]: 'ro' },
      { [`${short}/notes`]: 'ro' },
      { [`${short}/shown/old`]: 'cow' },
    ]);
    assert.equal(readFileSync(join(work, 'shown/old'), 'utf8'), 'shown/old\n');
    assert.equal((await box('run', '--rm', '--', 'cat', '../notes')).code, 1);
    // A file that nothing was learnt for is not left empty.
    assert.notEqual((await box('learn', '-o', `${file}-none`, 'no-such-box')).code, 0);
    assert.equal(existsSync(`${file}-none`), false);
  });

  it('sees what threads and their children ask for', { skip: python }, async () => {
    const text = `
import os, subprocess, threading
def ask(n):
    for name in ("many/%d" % n, "missing-%d" % n):
        try: open("../" + name)
        except OSError: pass
    subprocess.run(["cat", "../notes"], stderr=subprocess.DEVNULL)
threads = [threading.Thread(target=ask, args=(n,)) for n in range(1, 6)]
[t.start() for t in threads]
[t.join() for t in threads]
`;
    const { policy } = await learn('--rm', '--', 'python3', '-c', text);
    const short = work.replace(home, '~');
    assert.deepEqual(policy.fs, { [`${short}/many`]: 'ro', [`${short}/notes`]: 'ro' });
  });

  it('is not there in a box that did not ask', { skip: python }, async () => {
    // Threads of PID 1 beside its own, and that there is no filter.
    const looks = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
libc.syscall(number, 1, 8, None)
print(*(open(f"/proc/1/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/1/task") if thread != "1"), ctypes.get_errno())
`;
    assert.equal(await done('run', '--rm', '--', 'python3', '-c', looks), 'squash-start 22\n');
    assert.equal(
      await done('run', '--rm', '--trace-paths', '--', 'python3', '-c', looks),
      'squash-trace 22\n',
    );
    await done('run', '--keep', '--name', 'untraced', '--', 'sh', '-c', 'cat ../notes; true');
    assert.deepEqual(await pathEvents('untraced'), []);
    const end = await box('learn', 'untraced');
    assert.equal(end.code, 125);
    assert.match(end.stderr, /run it with --trace-paths/);
    await done('rm', 'untraced');
  });

  it('has a tracer that its programs can neither read, trace nor end', { skip: python }, async () => {
    const attacks = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
tgkill = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
attach = 16
for thread in map(int, os.listdir("/proc/1/task")):
    for how in (os.O_RDONLY, os.O_RDWR):
        try: print("opened", os.open(f"/proc/1/task/{thread}/mem", how))
        except PermissionError: pass
    if libc.ptrace(attach, thread, 0, 0) == 0: print("traced")
    for signal in range(1, 65): libc.syscall(tgkill, 1, thread, signal)
print(os.path.exists("../notes"), len(os.listdir("/proc/1/task")))
`;
    const end = await done('run', '--rm', '--trace-paths', '--', 'python3', '-c', attacks);
    assert.equal(end, 'False 2\n');
  });

  it('has no more netlink sockets than any box', { skip: python }, async () => {
    const fill = `
import socket
kept = []
try:
    while True: kept.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
except OSError as error: print(len(kept), error.errno)
`;
    for (const options of [[], ['--trace-paths']])
      assert.equal(await done('run', '--rm', ...options, '--', 'python3', '-c', fill), '32 105\n');
  });

  it('keeps so many, and shows none of them raw', { skip: python }, async () => {
    const floods = `
import os
def ask(path):
    try: os.stat(path)
    except OSError: pass
    except ValueError: pass
for name in (b"../a\\x1b[2Jb\\nc", b"../\\xff\\xfe", b"../" + b"x" * 5000, b"a/" * 2047 + b"b", b"", b"/", b"/../.."):
    ask(name)
    try: os.open(name, os.O_WRONLY)
    except OSError: pass
    try: os.rename(name, name + b"2")
    except OSError: pass
open("a*b", "w")
try: open("../ma*y")
except OSError: pass
for n in range(200000): ask("../missing/%d" % n)
try: open("../notes")
except OSError: pass
`;
    writeFileSync(join(work, 'a\u001b[2Jb\nc'), '');
    writeFileSync(join(work, 'ma*y'), '');
    await done('run', '--rm', '--', 'true');
    const daemons = processesOf(join(scratch, 'data'));
    const before = residentKib(daemons);
    // In a box that goes on, which has just begun.
    await done('run', '--keep', '--name', 'flood', '--trace-paths', '--', 'true');
    await done('exec', 'flood', '--', 'sh', '-c', 'cat ../denied; true');
    assert.deepEqual(await pathEvents('flood'), ['read W/denied refused: hidden; would need ro']);
    await done('exec', 'flood', '--', 'python3', '-c', floods);
    const told = await done('events', '--kind', 'path', 'flood');
    assert.match(told, /look \S+a\\u\{1b\}\[2Jb\\nc refused: hidden/);
    assert.doesNotMatch(told, /[^\P{Cc}\n]/u);
    assert.match(told, /and more than are kept\n$/);
    const grown = residentKib(daemons) - before;
    assert.ok(grown < 60_000, `${grown} KiB more`);
    const { policy, left_out: leftOut, truncated } = await learn('flood');
    assert.equal(truncated, true);
    assert.deepEqual(policy.fs, { [`${work.replace(home, '~')}/denied`]: 'ro' });
    assert.ok(leftOut.some(({ what, why }) => what.endsWith('/ma*y') && why.includes('pattern')));
    await done('rm', 'flood');
  });

  it('goes on when programs die while they ask', { skip: python }, async () => {
    const dies = `
import os, signal, subprocess, sys, time
child = "import os\\nwhile True:\\n  os.path.exists('../missing')"
for n in range(40):
    p = subprocess.Popen([sys.executable, "-c", child] if n % 8 == 0 else ["find", "/usr/share", "-newer", "/nothing"], stderr=subprocess.DEVNULL)
    time.sleep(0.02)
    p.kill()
    p.wait()
print(open("../shown/old").read().strip())
`;
    const end = await done(
      'run',
      '--rm',
      '--trace-paths',
      '--ro',
      '../shown',
      '--time',
      '60s',
      '--',
      'python3',
      '-c',
      dies,
    );
    assert.equal(end, 'shown/old\n');
    // The whole box, in the middle of a call.
    const loops = 'while :; do test -e ../missing; done';
    const id = (await done('run', '-d', '--trace-paths', '--', 'sh', '-c', loops)).trim();
    await done('stop', id);
    await done('rm', id);
  });
});

/** Of those that are there still: what a box leaves behind may be ending. */
function residentKib(entries: readonly { readonly pid: number }[]): number {
  return entries
    .map(({ pid }) => `/proc/${pid}/status`)
    .map((file) => spawnSync('cat', [file], { encoding: 'utf8' }).stdout)
    .reduce((sum, status) => sum + Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0), 0);
}
