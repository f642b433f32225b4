/** Unix sockets of this machine in a box: none but those that are named, and the ssh-agent through a filter. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type CliEnd, squash, startCli } from '../support/cli.ts';
import { expectNoLeaks, processesOf } from '../support/leaks.ts';
import { ownedPrefix, removeAbandoned } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;

/** What it sends it gets as upper case. */
async function shoutingServer(path: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (part) => socket.end(part.toString().toUpperCase()));
  });
  server.listen(path);
  await once(server, 'listening');
  return server;
}

/** One connection, whatever comes back in hexadecimal digits. */
const exchange = (path: string, hex: string): readonly string[] => [
  'perl',
  '-MIO::Socket::UNIX',
  '-e',
  `my $s = IO::Socket::UNIX->new(Peer => ${path.startsWith('$') ? path : `"${path}"`}) or die "$!\\n";
   print $s pack("H*", "${hex}"); $s->flush; shutdown($s, 1); local $/; print unpack("H*", <$s> // ""), "\\n"`,
];

const agentPath = '$ENV{SSH_AUTH_SOCK}';
const hexOf = (text: string): string => Buffer.from(text).toString('hex');
/** A message of the agent's protocol. */
const message = (...parts: readonly string[]): string => {
  const body = Buffer.from(parts.join(''), 'hex');
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  return length.toString('hex') + body.toString('hex');
};
const failure = '0000000105';

describe('sockets of this machine in a box', { skip }, () => {
  let top: string;
  let work: string;
  let data: string;
  let hidden: string;
  let server: Server;
  let agent: ChildProcess;
  let env: Record<string, string>;

  before(async () => {
    const { homedir } = userInfo();
    top = mkdtempSync(join(homedir, 'squash-box-test-'));
    data = join(mkdtempSync(join('/tmp', ownedPrefix('boxsock'))), 'data');
    work = join(top, 'work');
    hidden = join(top, 'hidden');
    mkdirSync(work);
    mkdirSync(hidden);
    execFileSync('git', ['init', '-q', work]);
    writeFileSync(join(hidden, 'beside'), 'hidden\n');
    server = await shoutingServer(join(hidden, 'shout.sock'));
    const agentSocket = join(top, 'agent.sock');
    agent = spawn('ssh-agent', ['-D', '-a', agentSocket], { stdio: 'ignore' });
    env = {
      SQUASH_BOX_DATA: data,
      SQUASH_DATA: join(data, 'none'),
      SQUASH_IDLE_EXIT_S: '2',
      SQUASH_MEMORY_RESERVE_MB: '0',
      SSH_AUTH_SOCK: agentSocket,
    };
    for (const name of ['first', 'second']) {
      const key = join(top, name);
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', `${name} key`, '-f', key]);
      await waitFor(
        'the agent',
        () => spawnSync('ssh-add', ['-q', key], { env: { ...env, PATH: '/usr/bin:/bin' } }).status === 0,
      );
    }
  });

  after(async () => {
    if (inside !== undefined) {
      const insideEnded = inside.child.exitCode === null ? once(inside.child, 'close') : undefined;
      inside.child.stdin?.end();
      await insideEnded;
    }
    server.close();
    const ended = once(agent, 'exit');
    agent.kill();
    await ended;
    await waitFor('the daemon to end', () => processesOf(data).length === 0, 60_000);
    await expectNoLeaks(data);
    await removeAbandoned(join(data, '..'));
    rmSync(top, { recursive: true, force: true });
  });

  const box = async (...words: readonly string[]): Promise<CliEnd> =>
    await squash(undefined, ['box', ...words], { cwd: work, env });
  const printed = async (...words: readonly string[]): Promise<string> => {
    const end = await box(...words);
    assert.equal(end.code, 0, end.stderr);
    return end.stdout.toString();
  };
  const add = (...words: readonly string[]): string =>
    execFileSync('ssh-add', words, { env: { ...env, PATH: '/usr/bin:/bin' }, encoding: 'utf8' });

  it('are reached where they are named, in a directory that stays hidden, and else not', async () => {
    const socket = join(hidden, 'shout.sock');
    const ask = exchange(socket, hexOf('hello'));
    assert.equal(await printed('run', '--unix-socket', socket, '--', ...ask), `${hexOf('HELLO')}\n`);
    assert.notEqual((await box('run', '--', ...ask)).code, 0);
    assert.equal(await printed('run', '--unix-socket', socket, '--', 'ls', '-A', hidden), 'shout.sock\n');
    const inWork = join(work, 'in-work.sock');
    const other = await shoutingServer(inWork);
    const askThere = exchange(inWork, hexOf('hello'));
    assert.notEqual((await box('run', '--', ...askThere)).code, 0, 'copy-on-write shows the name alone');
    assert.equal(
      await printed('run', '--unix-socket', 'in-work.sock', '--', ...askThere),
      `${hexOf('HELLO')}\n`,
    );
    other.close();
    assert.match(
      (await box('run', '--unix-socket', join(hidden, 'beside'), '--', 'true')).stderr,
      /there is no socket/,
    );
    assert.match(await printed('run', '--unix-socket', socket, '--dry-run'), /^Sockets: .*shout\.sock$/m);
  });

  it('of container engines, sessions and Squash itself are refused, by links and by other names, too', async () => {
    const engine = join(top, 'docker.sock');
    const engineServer = await shoutingServer(engine);
    symlinkSync(engine, join(top, 'innocent.sock'));
    for (const path of [engine, join(top, 'innocent.sock')]) {
      const end = await box('run', '--unix-socket', path, '--', 'true');
      assert.equal(end.code, 126, end.stderr);
      assert.match(end.stderr, /container_socket/);
    }
    engineServer.close();
    await printed('run', '-d', '--name', 'holds', '--', 'sleep', '600');
    const own = await box('run', '--unix-socket', join(data, 'run/api.sock'), '--', 'true');
    assert.equal(own.code, 126, own.stderr);
    assert.match(own.stderr, /always_closed/);
    await printed('rm', 'holds');
  });

  it('come from policies of the person, never from a project’s, and what is hidden stays so', async () => {
    const socket = join(hidden, 'shout.sock');
    const ask = exchange(socket, hexOf('hello'));
    const policy = join(top, 'policy.toml');
    const text = (rules: string): string =>
      `version = 1\n[fs]\n"." = "cow"\n${rules}[sockets]\nallow = ["${socket}"]\n`;
    writeFileSync(policy, text(''));
    assert.equal(await printed('run', '--policy', policy, '--', ...ask), `${hexOf('HELLO')}\n`);
    writeFileSync(policy, text(`"${hidden}/**" = "hidden"\n"${socket}" = "hidden"\n`));
    const closed = await box('run', '--policy', policy, '--', ...ask);
    assert.equal(closed.code, 126, closed.stderr);
    assert.match(closed.stderr, /sockets\.allow .* is hidden by/);
    writeFileSync(join(work, 'squash-box.toml'), text(''));
    await squash(undefined, ['box', 'trust', 'add'], { cwd: work, env });
    assert.notEqual((await box('run', '--', ...ask)).code, 0);
    const shown = await box('policy', 'show');
    assert.match(`${shown.stdout.toString()}${shown.stderr}`, /a project’s policy opens no sockets/);
    rmSync(join(work, 'squash-box.toml'));
  });

  it('give the ssh-agent’s keys and signatures, each told, and nothing else of it', async () => {
    const list = await printed('run', '--unix-socket', 'ssh-agent', '--', 'ssh-add', '-l');
    assert.equal(list, add('-l'));
    writeFileSync(join(work, 'first.pub'), execFileSync('ssh-keygen', ['-y', '-f', join(top, 'first')]));
    writeFileSync(join(work, 'text'), 'to be signed\n');
    const sign = ['ssh-keygen', '-q', '-Y', 'sign', '-n', 'file', '-f', 'first.pub', 'text'];
    const script = `${sign.join(' ')} && cat text.sig`;
    const end = await box(
      'run',
      '--rm',
      '--unix-socket',
      env['SSH_AUTH_SOCK'] ?? '',
      '--',
      'sh',
      '-c',
      script,
    );
    assert.equal(end.code, 0, end.stderr);
    const [, print = ''] = add('-l').split(' ');
    assert.ok(end.stderr.includes(`squash: the box signed with the key "first key" (${print})`), end.stderr);
    writeFileSync(join(top, 'text.sig'), end.stdout);
    execFileSync('ssh-keygen', ['-Y', 'check-novalidate', '-n', 'file', '-s', join(top, 'text.sig')], {
      input: 'to be signed\n',
    });
    for (const words of [['-D'], ['-x'], ['-d', 'first.pub']]) {
      const refused = await box('run', '--rm', '--unix-socket', 'ssh-agent', '--', 'ssh-add', ...words);
      assert.notEqual(refused.code, 0, words.join(' '));
    }
    const adding = 'ssh-keygen -q -t ed25519 -N "" -f /tmp/k && ssh-add /tmp/k';
    assert.notEqual(
      (await box('run', '--rm', '--unix-socket', 'ssh-agent', '--', 'sh', '-c', adding)).code,
      0,
    );
    assert.equal(add('-l'), list, 'the agent is as it was');
    assert.notEqual((await box('run', '--', 'ssh-add', '-l')).code, 0);
    const detached = await box('run', '-d', '--unix-socket', 'ssh-agent', '--', 'true');
    assert.match(detached.stderr, /not with --detach/);
  });

  it('give one key of the ssh-agent, by fingerprint or comment', async () => {
    const [first = '', second = ''] = add('-l').trimEnd().split('\n');
    const [, print = ''] = second.split(' ');
    for (const key of [print, 'second key']) {
      const list = await printed('run', '--unix-socket', `ssh-agent=${key}`, '--', 'ssh-add', '-l');
      assert.equal(list, `${second}\n`, first);
    }
    const sign = 'ssh-keygen -q -Y sign -n file -f first.pub text';
    const end = await box('run', '--rm', '--unix-socket', 'ssh-agent=second key', '--', 'sh', '-c', sign);
    assert.notEqual(end.code, 0);
    assert.doesNotMatch(end.stderr, /the box signed/);
    const missing = await box('run', '--unix-socket', 'ssh-agent=third', '--', 'true');
    assert.match(missing.stderr, /has no key "third"/);
  });

  it('pass no hostile message on to the ssh-agent', async () => {
    const blob = Buffer.from(
      execFileSync('ssh-keygen', ['-y', '-f', join(top, 'first')], { encoding: 'utf8' }).split(' ')[1] ?? '',
      'base64',
    );
    const key = message(blob.toString('hex'));
    for (const [sent, answer] of [
      // remove all, lock, unlock, add, extension, of the first protocol, unknown
      [message('13'), failure],
      [message('16', message(hexOf('x'))), failure],
      [message('17', message(hexOf('x'))), failure],
      [message('11', message(hexOf('ssh-ed25519'))), failure],
      [message('1b', message(hexOf('session-bind@openssh.com'))), failure],
      [message('01'), failure],
      [message('ff'), failure],
      // A list with a byte too many, signatures that are cut off, too long, or with unknown flags.
      [message('0b', '00'), failure],
      [message('0d', key), failure],
      [message('0d', key, message(hexOf('x')), '0000000000'), failure],
      [message('0d', key, message(hexOf('x')), '80000000'), failure],
      [message('0d', 'ffffffff', hexOf('x')), failure],
      [message('0d', message(hexOf('no key')), message(hexOf('x')), '00000000'), failure],
      // Lengths that no message has: the connection ends.
      ['00000000', ''],
      ['ffffffff0b', ''],
      ['000400000b', ''],
      // Two in one piece, each answered.
      [message('13') + message('ff'), failure + failure],
    ] as const) {
      const end = await exchangeInside(sent);
      assert.equal(end, answer, sent);
    }
    assert.equal(add('-l').trimEnd().split('\n').length, 2);
    const left = readdirSync(tmpdir()).filter((name) => name.startsWith('squash-agent-'));
    assert.deepEqual(left, [], 'a command line that is killed would leave it');
  });

  let inside: { readonly child: ChildProcess; readonly lines: AsyncIterator<string> } | undefined;
  /** All in one box: each line that it reads is a connection's bytes. */
  async function exchangeInside(hex: string): Promise<string> {
    inside ??= startInside();
    inside.child.stdin?.write(`${hex}\n`);
    const { value } = await inside.lines.next();
    return value;
  }

  function startInside() {
    const script = `$| = 1; while (my $hex = <STDIN>) { chomp $hex;
      my $s = IO::Socket::UNIX->new(Peer => ${agentPath}) or die "$!\\n";
      print $s pack("H*", $hex); $s->flush; shutdown($s, 1); local $/; print unpack("H*", <$s> // ""), "\\n"; $/ = "\\n" }`;
    const words = [
      'box',
      'run',
      '--unix-socket',
      'ssh-agent',
      '--',
      'perl',
      '-MIO::Socket::UNIX',
      '-e',
      script,
    ];
    const child = startCli(undefined, words, { cwd: work, env });
    return { child, lines: linesOf(child) };
  }
});

async function* linesOf(child: ChildProcess): AsyncGenerator<string, string, void> {
  let text = '';
  for await (const part of child.stdout ?? []) {
    text += (part as Buffer).toString();
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
      yield text.slice(0, end);
      text = text.slice(end + 1);
    }
  }
  return 'it ended';
}
