/** `squash exec` against a real daemon: streams, exit codes, signals and backpressure as if the command ran here. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { execRecordSchema } from '@squash/contract/exec';
import { endOf, squash, squashOk, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

describe('squash exec', () => {
  let daemon: TestDaemon;
  before(async () => {
    daemon = await TestDaemon.start();
    await squashOk(daemon, ['create', 'box', '--layers', '000-base-test']);
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });

  const exec = (...words: string[]) => squash(daemon, ['exec', 'box', '--', ...words]);
  const shell = (text: string, input?: string | Uint8Array) =>
    squash(daemon, ['exec', 'box', '-c', text], input === undefined ? {} : { input });

  it('keeps both streams apart and words as they are', async () => {
    const end = await shell('echo out; echo err >&2');
    assert.deepEqual([end.code, end.stdout.toString(), end.stderr], [0, 'out\n', 'err\n']);
    const words = await exec('printf', '[%s]', 'a b', "it's", '$HOME', '"', '', '-t');
    assert.equal(words.stdout.toString(), `[a b][it's][$HOME]["][][-t]`);
  });

  it('passes exit codes and signals through', async () => {
    for (const code of [0, 1, 3, 124, 125, 255]) assert.equal((await shell(`exit ${code}`)).code, code);
    assert.equal((await shell('kill -TERM $$')).code, 143);
    assert.equal((await shell('kill -KILL $$')).code, 137);
  });

  it('tells what can’t be run from what is not there, and its own failures from both', async () => {
    assert.equal((await exec('/no/such/program')).code, 127);
    assert.equal((await exec('no-such-program')).code, 127);
    assert.equal((await exec('/etc/passwd')).code, 126);
    const nowhere = await squash(daemon, ['exec', '-w', '/no/such', 'box', 'true']);
    assert.equal(nowhere.code, 126);
    assert.match(nowhere.stderr, /the working directory: no such file or directory/);
    const missing = await squash(daemon, ['exec', 'nobody', 'true']);
    assert.equal(missing.code, 125);
    assert.match(missing.stderr, /^squash: .*nobody.*\(sandbox_not_found\)\n$/);
    const strange = await squash(daemon, ['exec', 'no body', 'true']);
    assert.match(strange.stderr, /"no body"/, 'as it was typed');
    assert.equal((await squash(daemon, ['exec', 'box'])).code, 125);
    assert.equal(
      (await squash(undefined, ['exec', 'box', 'true'], { env: { SQUASH_SOCKET: '/none' } })).code,
      125,
    );
  });

  it('ends a command that runs out of time with 124', async () => {
    const end = await squash(daemon, ['exec', '--timeout', '0.3', 'box', '--', 'sleep', '60']);
    assert.equal(end.code, 124);
    assert.match(end.stderr, /timed_out/);
  });

  it('sets directory, variables and user', async () => {
    const ids = (await shell("awk '{ print $3 }' /proc/self/uid_map", '')).stdout.toString().trim();
    // Where the host gives one id there is no other user to be; the refusal must say so and run nothing.
    const user = ids === '1' ? '0:0' : '65534:65534';
    const words = ['exec', '-w', '/tmp', '-e', 'A=x y', '-e', 'FROM_HERE', '-u', user, 'box', '-c'];
    const end = await squash(daemon, [...words, 'pwd; echo "$A $FROM_HERE"; id -u; id -g'], {
      env: { FROM_HERE: 'z' },
    });
    assert.equal(end.stdout.toString(), `/tmp\nx y z\n${user.replace(':', '\n')}\n`);
    if (ids !== '1') return;
    const refused = await squash(daemon, ['exec', '-u', '65534:65534', 'box', '-c', 'echo ran']);
    assert.deepEqual([refused.code, refused.stdout.toString()], [126, '']);
    assert.match(refused.stderr, /the user/);
  });

  it('carries 32 MB of binary data in and out, byte for byte', async () => {
    const data = randomBytes(32 * 1024 * 1024);
    const end = await squash(daemon, ['exec', 'box', '--', 'cat'], { input: data });
    assert.equal(end.code, 0, end.stderr);
    assert.equal(end.stdout.length, data.length);
    assert.equal(hash(end.stdout), hash(data));
  });

  it('ends the command’s input where ours ends', async () => {
    assert.equal((await shell('wc -c', '')).stdout.toString().trim(), '0');
    assert.equal((await shell('read a; read b; echo $a-$b', 'x\ny')).stdout.toString(), 'x-y\n');
    const early = await squash(daemon, ['exec', 'box', '--', 'true'], { input: Buffer.alloc(8_000_000) });
    assert.equal(early.code, 0, early.stderr);
    const none = await squash(daemon, ['exec', '-n', 'box', '--', 'cat'], { input: 'not read' });
    assert.deepEqual([none.code, none.stdout.length], [0, 0]);
  });

  it('stalls the command while nobody reads, and loses nothing', async () => {
    const child = startCli(
      daemon,
      [
        'exec',
        'box',
        '-c',
        'i=0; while [ $i -lt 300 ]; do head -c 65536 /dev/zero; i=$((i+1)); echo $i > /tmp/written; done',
      ],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    const written = async () =>
      Number((await shell('cat /tmp/written 2>/dev/null || echo 0')).stdout.toString());
    // It stands still when two looks in a row see the same number; 300 blocks do not fit in all the buffers between.
    let before = -1;
    const stalled = await waitFor('the command to stall', async () => {
      const now = await written();
      const same = now > 0 && now === before;
      before = now;
      return same ? now : undefined;
    });
    assert.ok(stalled < 150, `${stalled} blocks were written`);
    const end = await endOf(child);
    assert.equal(end.code, 0, end.stderr);
    assert.equal(end.stdout.length, 300 * 65_536);
  });

  it('hands signals to the command', async () => {
    for (const [name, code] of [
      ['SIGINT', 7],
      ['SIGTERM', 8],
      ['SIGUSR1', 9],
    ] as const) {
      const text = `trap 'exit ${code}' ${name.slice(3)}; echo ready; while :; do sleep 0.1; done`;
      const child = startCli(daemon, ['exec', 'box', '-c', text], { stdio: ['ignore', 'pipe', 'inherit'] });
      assert.ok(child.stdout);
      await once(child.stdout, 'data');
      child.kill(name);
      await once(child, 'close');
      assert.equal(child.exitCode, code, name);
    }
  });

  it('is left alone with a third Ctrl-C, and the command is hung up', async () => {
    const text = `trap '' INT; trap 'echo > /tmp/hung-up; exit' HUP; echo ready; while :; do sleep 0.1; done`;
    const child = startCli(daemon, ['exec', 'box', '-c', text], { stdio: ['ignore', 'pipe', 'ignore'] });
    assert.ok(child.stdout);
    await once(child.stdout, 'data');
    const closed = once(child, 'close');
    await waitFor('the call to leave', () => {
      child.kill('SIGINT');
      return child.exitCode !== null;
    });
    await closed;
    assert.equal(child.exitCode, 130);
    await waitFor('the command to be hung up', async () => (await shell('test -e /tmp/hung-up')).code === 0);
  });

  it('ends quietly when its reader goes', async () => {
    const child = startCli(daemon, ['exec', 'box', '--', 'yes'], { stdio: ['ignore', 'pipe', 'pipe'] });
    assert.ok(child.stdout);
    await once(child.stdout, 'data');
    child.stdout.destroy();
    const { code, stderr } = await endOf(child);
    assert.deepEqual([code, stderr], [141, '']);
    await waitFor('yes to end', async () => !(await shell('ps')).stdout.toString().includes(' yes'));
  });

  it('prints the record with --json, and passes the exit code through', async () => {
    const end = await squash(daemon, ['exec', '--json', 'box', '-c', 'echo a; echo b >&2; exit 4']);
    assert.equal(end.code, 4);
    const record = execRecordSchema.parse(JSON.parse(end.stdout.toString()));
    assert.deepEqual(
      [record.exit_code, record.stdout, record.stderr, record.reason],
      [4, 'a\n', 'b\n', 'exited'],
    );
  });

  it('starts jobs, follows them to their exit code, lists and kills them', async () => {
    const job = await squashOk(daemon, [
      'exec',
      '-d',
      '-e',
      "A=it's",
      '-w',
      '/tmp',
      'box',
      '-c',
      'echo "$A"; pwd; echo e >&2; exit 6',
    ]);
    const followed = await squash(daemon, ['logs', '-f', 'box', job]);
    assert.deepEqual(
      [followed.code, followed.stdout.toString(), followed.stderr],
      [6, "it's\n/tmp\n", 'e\n'],
    );
    const long = await squashOk(daemon, ['exec', '-d', 'box', '--', 'sleep', '600']);
    assert.match(await squashOk(daemon, ['jobs', 'box']), new RegExp(`${long} +running`));
    assert.equal(await squashOk(daemon, ['job', 'kill', 'box', long]), long);
    assert.match(await squashOk(daemon, ['jobs', 'box']), new RegExp(`${long} +killed`));
    assert.equal((await squash(daemon, ['job', 'kill', 'box', '99999'])).code, 1);
  });

  it('lists, attaches to, waits for and signals processes, by number and by tag', async () => {
    const tag = 'a\u001b[31m tag';
    const job = await squashOk(daemon, [
      'exec',
      '-d',
      '--tag',
      tag,
      'box',
      '--',
      'sh',
      '-c',
      'echo one; echo two >&2; while ! [ -e /end ]; do sleep 0.05; done; echo three; exit 5',
    ]);
    const table = await squashOk(daemon, ['ps', 'box']);
    assert.match(table, new RegExp(`${job} +a\\\\u\\{1b\\}\\[31m tag +process +running +- .* sh -c`));
    assert.ok(!table.includes(tag));
    assert.equal(await squashOk(daemon, ['ps', '-q', '--tag', tag, 'box']), job);
    assert.equal(await squashOk(daemon, ['wait', '--log', 'two', 'box', job]), 'two');
    const late = await squash(daemon, ['wait', '--timeout', '0.2', 'box', `tag:${tag}`]);
    assert.deepEqual([late.code, /wait_timeout/.test(late.stderr)], [124, true]);
    const attached = squash(daemon, ['attach', 'box', tag], { input: '' });
    await shell('touch /end');
    const end = await attached;
    assert.deepEqual([end.code, end.stdout.toString(), end.stderr], [5, 'one\nthree\n', 'two\n']);
    for (const words of [[tag], ['--follow', tag], ['--follow', job]]) {
      const log = await squash(daemon, ['logs', 'box', ...words]);
      assert.deepEqual([log.stdout.toString(), log.stderr], ['one\nthree\n', 'two\n']);
      assert.equal(log.code, words.length === 1 ? 0 : 5);
    }
    const lines = (await squash(daemon, ['attach', '--json', 'box', job])).stdout
      .toString()
      .trim()
      .split('\n');
    assert.deepEqual(JSON.parse(lines.at(-1) ?? ''), { done: true, exit_code: 5 });
    assert.equal((await squash(daemon, ['wait', 'box', job])).code, 5);
    assert.doesNotMatch(await squashOk(daemon, ['ps', 'box']), new RegExp(`^ *${job} `, 'm'));
    const sleeping = await squashOk(daemon, ['exec', '-d', 'box', '--', 'sleep', '600']);
    assert.match(await squashOk(daemon, ['jobs', 'box']), / sleep 600$/m);
    assert.doesNotMatch(await squashOk(daemon, ['jobs', 'box']), /exec sleep/);
    await squashOk(daemon, ['signal', 'box', sleeping, 'INT']);
    assert.equal((await squash(daemon, ['wait', 'box', sleeping])).code, 130);
    assert.equal((await squash(daemon, ['attach', 'box', 'no-such-tag'])).code, 125);
  });

  it('gives an attached process its input', async () => {
    const body = { shell: 'cat; exit 4', stdin: true, tag: 'feeding' };
    const response = await fetch(`${daemon.url}/v1/sandboxes/box/processes`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 201);
    const input = randomBytes(300_000);
    const end = await squash(daemon, ['attach', 'box', 'feeding'], { input });
    assert.deepEqual([end.code, end.stdout.equals(input)], [4, true]);
  });

  it('shows the log, and one command’s output on its streams', async () => {
    await shell('printf to-out; printf to-err >&2; exit 2');
    const table = await squashOk(daemon, ['logs', 'box']);
    assert.match(table, /to-out/);
    const records = execRecordSchema
      .array()
      .parse(JSON.parse(await squashOk(daemon, ['logs', '--json', 'box'])));
    const last = records.at(-1);
    assert.ok(last);
    const one = await squash(daemon, ['logs', 'box', `${last.seq}`]);
    assert.deepEqual([one.stdout.toString(), one.stderr], ['to-out', 'to-err']);
    const page = execRecordSchema
      .array()
      .parse(JSON.parse(await squashOk(daemon, ['logs', '--json', '--after', `${last.seq - 1}`, 'box'])));
    assert.deepEqual(
      page.map((record) => record.seq),
      [last.seq],
    );
  });

  it('run makes a sandbox for one command and destroys it', async () => {
    const end = await squash(daemon, ['run', '000-base-test', '--', 'sh', '-c', 'echo one; exit 5']);
    assert.deepEqual([end.code, end.stdout.toString()], [5, 'one\n']);
    assert.equal(await squashOk(daemon, ['ls', '-q']), 'box');
    assert.equal((await squash(daemon, ['run', '000-no-such', 'true'])).code, 125);
  });

  it('run takes a command as it is typed, with its script and what is named', async () => {
    const cwd = mkdtempSync(join(tmpdir(), 'squash-run-'));
    try {
      mkdirSync(join(cwd, 'sub/data'), { recursive: true });
      writeFileSync(join(cwd, 'sub/script.sh'), 'pwd; echo "$0" "$1"; cat data/deep; exit 3');
      writeFileSync(join(cwd, 'sub/data/deep'), 'taken\n');
      const words = ['run', '--file', 'sub/data', 'sh', '-e', 'sub/script.sh', '-x'];
      const end = await squash(daemon, words, { cwd });
      assert.deepEqual([end.code, end.stdout.toString()], [3, '/root\nsub/script.sh -x\ntaken\n']);
      const inline = await squash(daemon, ['run', 'sh', '-c', 'cat "$0"', 'sub/script.sh'], { cwd });
      assert.match(
        inline.stderr,
        /cat: can't open 'sub\/script.sh'/,
        'nothing comes along that is no script',
      );
      const missing = await squash(daemon, ['run', '--file', 'none', 'true'], { cwd });
      assert.deepEqual([missing.code, /file_unreadable/.test(missing.stderr)], [125, true]);
      const python = await squash(daemon, ['run', 'python', '-c', '1']);
      assert.equal(python.code, 127);
      assert.match(python.stderr, /to have it in sandboxes: squash module build python \(exec_failed\)$/m);
      assert.equal(await squashOk(daemon, ['ls', '-q']), 'box');
    } finally {
      rmSync(cwd, { recursive: true });
    }
  });

  it('run --id stands before a command and changes nothing about it', async () => {
    const prefix = ['run', '--id', 'box', '--workdir', '/tmp', '--'];
    const bytes = Buffer.from([0, 255, 10, 13, 0x1b]);
    const copied = await squash(daemon, [...prefix, 'sh', '-c', 'cat; pwd >&2; exit 42'], { input: bytes });
    assert.deepEqual([copied.code, copied.stderr, copied.stdout.equals(bytes)], [42, '/tmp\n', true]);
    const child = startCli(daemon, [
      ...prefix,
      'sh',
      '-c',
      'trap "echo got; exit 7" TERM; echo up; while :; do sleep 0.05; done',
    ]);
    const ended = endOf(child);
    assert.ok(child.stdout);
    await once(child.stdout, 'data');
    child.kill('SIGTERM');
    assert.equal((await ended).code, 7);
    const refused = await squash(daemon, ['run', '--id', 'box', '--memory', '64', '--', 'true']);
    assert.deepEqual([refused.code, /--memory is of a new sandbox/.test(refused.stderr)], [125, true]);
    assert.equal((await squash(daemon, ['run', '--id', 'none', '--', 'true'])).code, 125);
  });

  it('goes on in the sandbox when the daemon dies, and says where to look', async () => {
    const child = startCli(daemon, ['exec', 'box', '-c', 'echo ready; sleep 2; echo done > /tmp/finished'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    assert.ok(child.stdout);
    await once(child.stdout, 'data');
    const ended = endOf(child);
    await daemon.kill();
    const end = await ended;
    assert.equal(end.code, 125);
    const told = /the command goes on, its output: (squash logs box \d+) \(unreachable\)/.exec(end.stderr);
    assert.ok(told?.[1], end.stderr);
    await daemon.start();
    await waitFor('the command to finish', async () => (await shell('cat /tmp/finished')).code === 0);
    // What was said is what works.
    const words = told[1].split(' ').slice(1);
    await waitFor('the record', async () => (await squash(daemon, words)).code === 0);
    assert.match(await squashOk(daemon, words), /^ready$/m);
  });
});

function hash(data: Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}
