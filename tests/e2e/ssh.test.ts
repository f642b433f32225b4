/** SSH into sandboxes with OpenSSH's own clients, over the pipe of `squash ssh --stdio`. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { endOf, squash, squashOk } from '../support/cli.ts';
import { HostServer } from '../support/host-server.ts';
import { processes } from '../support/leaks.ts';
import { SshScene } from '../support/ssh-scene.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

const sha = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const host = 'dev.squash';

let scene: SshScene;
before(async () => {
  scene = await SshScene.start(['dev']);
});
after(() => scene[Symbol.asyncDispose]());

/** A command in the sandbox, by `ssh`. */
const ssh = (...words: string[]) => scene.run('ssh', [host, ...words]);

describe('ssh to a sandbox', () => {
  it('passes exit codes, both streams and variables on, and starts at home', async () => {
    const end = await ssh('echo out; echo err >&2; pwd; echo $USER $HOME $SHELL; exit 7');
    assert.deepEqual(
      [end.code, end.stdout.toString(), end.stderr],
      [7, 'out\n/root\nroot /root /bin/sh\n', 'err\n'],
    );
    const sent = await scene.runOk('ssh', ['-o', 'SetEnv=GREETING=hello', host, 'echo $GREETING']);
    assert.equal(sent, 'hello\n');
    assert.equal((await ssh('kill -TERM $$')).code, 255);
    const unknown = await scene.run('ssh', ['-l', 'alice', host, 'id']);
    assert.match(unknown.stderr, /Cannot find user "alice"/);
    const nowhere = await scene.run('ssh', ['nosuch.squash', 'id']);
    assert.equal(nowhere.code, 255);
    assert.match(nowhere.stderr, /squash: Cannot find sandbox "nosuch".*sandbox_not_found/);
  });

  it('carries bytes as they are, both ways and through a change of keys', async () => {
    const bytes = randomBytes(8_000_000);
    const end = await scene.run(
      'ssh',
      ['-o', 'RekeyLimit=1M', host, 'tee copy | sha256sum >&2; cat copy'],
      bytes,
    );
    assert.equal(end.code, 0);
    assert.equal(end.stderr, `${sha(bytes)}  -\n`);
    assert.equal(sha(end.stdout), sha(bytes));
  });

  it('logs a user of the sandbox in, with his home and his rights', async (t) => {
    const end = await scene.run('ssh', ['-l', 'nobody', host, 'id -u; pwd']);
    if (end.code === 255 && process.getuid?.() !== 0) return t.skip('single-id mode: there is no other user');
    assert.equal(end.stdout.toString(), '65534\n/\n');
    const user = await squash(scene.daemon, ['ssh', 'nobody@dev', '--', '-T', 'id', '-u'], {
      env: scene.env,
    });
    assert.equal(user.stdout.toString(), '65534\n');
    const refused = await scene.run('scp', ['-q', 'config', `nobody@${host}:/root/stolen`]);
    assert.match(refused.stderr, /Permission denied/);
  });

  it('is what `squash ssh` starts', async () => {
    const direct = await squash(scene.daemon, ['ssh', 'dev', 'cat; exit 3'], {
      env: scene.env,
      input: 'word',
    });
    assert.deepEqual([direct.code, direct.stdout.toString(), direct.stderr], [3, 'word', '']);
    const words = await squash(scene.daemon, ['ssh', 'dev', '--', '-T', 'id', '-u'], { env: scene.env });
    assert.equal(words.stdout.toString(), '0\n');
  });

  it('gives a terminal with its size and its changes', async () => {
    const words = ['ssh', '-F', scene.config, '-o', 'SetEnv=PS1=ready>', host];
    await using terminal = new Terminal(words, {
      rows: 33,
      columns: 101,
      env: { ...scene.env, TERM: 'vt100' },
    });
    await terminal.see(/ready>/);
    terminal.type('stty size; echo $TERM; tty\r');
    await terminal.see(/33 101\r\nvt100\r\n\/dev\//);
    terminal.resize(50, 132);
    terminal.type('until [ "$(stty size)" = "50 132" ]; do sleep 0.05; done; echo resized\r');
    await terminal.see(/\r\nresized\r\n/);
    terminal.type('exit 7\r');
    assert.deepEqual(await terminal.end(), { status: 7 * 256, restored: true });
  });

  it('leaves nothing running where the client is killed', async () => {
    const client = scene.spawn('ssh', [host, 'echo $$ > /root/pid; trap "" PIPE; exec sleep 4321']);
    // As the sandbox sees it: a microVM shows the host none of its commands.
    const sleeps = async (): Promise<boolean> => {
      const cmd = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
      const { stdout } = await scene.daemon.call('POST', '/cgi-bin/api/sandboxes/dev/exec', { cmd });
      return stdout.includes('sleep 4321');
    };
    await waitFor('the command runs', sleeps);
    client.kill('SIGKILL');
    await endOf(client);
    await waitFor('nothing of it runs', async () => {
      const servers = processes().filter(({ command }) => command.includes(`ssh --stdio ${host}`));
      return servers.length === 0 && !(await sleeps());
    });
  });

  it('writes its lines into a configuration once, before what is there', async () => {
    const file = scene.path('user/config');
    mkdirSync(scene.path('user'));
    writeFileSync(file, 'Host *\n  User me\n', { mode: 0o640 });
    for (let round = 0; round < 2; round += 1) {
      await squashOk(scene.daemon, ['ssh', '--write', file], { env: scene.env });
    }
    const text = readFileSync(file, 'utf8');
    assert.equal(text.split('Host *.squash').length, 2, text);
    assert.match(text, /\nHost \*\n {2}User me\n$/);
    assert.equal(statSync(file).mode & 0o777, 0o640);
  });
});

describe('files over ssh', () => {
  it('go by scp in both directions, with modes and times, also whole trees', async () => {
    const big = randomBytes(5_000_000);
    const tree = scene.makeDirectory('tree/deep');
    writeFileSync(join(tree, 'big'), big);
    writeFileSync(join(tree, 'empty'), '');
    writeFileSync(join(tree, 'ö b'), 'x');
    chmodSync(join(tree, 'ö b'), 0o750);
    utimesSync(join(tree, 'ö b'), 981_173_106, 981_173_106);
    symlinkSync('big', join(tree, 'link'));
    await scene.runOk('scp', ['-rpq', 'tree', `${host}:`]);
    assert.equal((await ssh('sha256sum < tree/deep/big')).stdout.toString(), `${sha(big)}  -\n`);
    assert.equal((await ssh('stat -c "%a %Y" "tree/deep/ö b"')).stdout.toString(), '750 981173106\n');
    await scene.runOk('scp', ['-rpq', `${host}:tree`, 'back']);
    assert.equal(sha(readFileSync(scene.path('back/deep/big'))), sha(big));
    const { mode, mtimeMs } = statSync(scene.path('back/deep/ö b'));
    assert.deepEqual([mode & 0o777, mtimeMs], [0o750, 981_173_106_000]);
  });

  it('go by sftp: names, links, modes, lists, a half upload that goes on, and bytes in the middle', async () => {
    writeFileSync(scene.path('half'), 'a'.repeat(300_000));
    await scene.runOk('sftp', ['-b', '-', host], 'mkdir d\ncd d\nput half\n');
    writeFileSync(scene.path('half'), `${'a'.repeat(300_000)}${'b'.repeat(400_000)}`);
    const batch = [
      'cd d',
      'reput half',
      'rename half whole',
      'chmod 600 whole',
      'symlink whole soft',
      'ln whole hard',
    ];
    await scene.runOk(
      'sftp',
      ['-b', '-', host],
      [...batch, 'rm hard', '-rm nosuch', '-rmdir whole'].join('\n'),
    );
    const listed = await scene.runOk('sftp', ['-b', '-', host], 'ls -la d');
    assert.match(listed, /^-rw------- +1 0 +0 +700000 .* whole$/m);
    assert.match(listed, /^lrwx.* soft$/m);
    assert.equal(
      (await ssh('tail -c 5 d/soft; rm -r d; mkdir big; cd big; touch $(seq 1500)')).stdout.toString(),
      'bbbbb',
    );
    const many = await scene.runOk('sftp', ['-b', '-', host], 'ls -1 big');
    assert.equal(
      many.split('\n').filter((line) => line.length > 0 && !line.startsWith('sftp>')).length,
      1_500,
    );
  });

  it('are told to be out of reach where the sandbox or its user is none', async () => {
    const end = await scene.run('sftp', ['-b', '-', `alice@${host}`], 'ls\n');
    assert.match(end.stderr, /squash: Cannot find user "alice"/);
  });

  it('go by rsync and git, which run in the sandbox', async () => {
    const shell = `ssh -F ${scene.config}`;
    const missing = await scene.run('rsync', ['-e', shell, '-a', 'config', `${host}:`]);
    assert.match(missing.stderr, /rsync: not found/);
    await scene.bring('dev', ['/usr/bin/rsync', '/usr/bin/git']);
    const tree = scene.makeDirectory('synced');
    for (let count = 0; count < 100; count += 1)
      writeFileSync(join(tree, `${count}`), randomBytes(count * 100));
    await scene.runOk('rsync', ['-e', shell, '-a', 'synced/', `${host}:synced`]);
    writeFileSync(join(tree, '7'), 'changed');
    const sent = await scene.runOk('rsync', ['-e', shell, '-a', '-i', 'synced/', `${host}:synced`]);
    assert.match(sent, /^<f\S* 7$/m);
    await scene.runOk('rsync', ['-e', shell, '-a', `${host}:synced/`, 'returned']);
    execFileSync('diff', ['-r', tree, scene.path('returned')]);

    await ssh(
      'ln -s git /usr/bin/git-upload-pack; ln -s git /usr/bin/git-receive-pack; git init -q --bare repo.git',
    );
    const git = (...words: string[]) =>
      scene.runOk('git', [
        '-c',
        'user.name=a',
        '-c',
        'user.email=a@b',
        '-c',
        `core.sshCommand=${shell}`,
        ...words,
      ]);
    await git('clone', '-q', `${host}:repo.git`, 'work');
    writeFileSync(scene.path('work/file'), randomBytes(100_000));
    await git('-C', 'work', 'add', 'file');
    await git('-C', 'work', 'commit', '-qm', 'one');
    await git('-C', 'work', 'push', '-q', 'origin', 'HEAD:main');
    const head = (await git('-C', 'work', 'rev-parse', 'HEAD')).trim();
    assert.equal((await ssh('git -C repo.git rev-parse main')).stdout.toString().trim(), head);
  });
});

describe('ports over ssh', () => {
  it('are the sandbox’s own, which an editor’s server that outlives its shell listens on', async () => {
    const bytes = randomBytes(1_000_000);
    await scene.runOk('ssh', [host, 'mkdir www; cat > www/file'], bytes);
    // As editors do: a shell without a terminal reads what it shall do, and starts a server that stays.
    const script = 'setsid httpd -f -p 127.0.0.1:8000 -h www > server.log 2>&1 &\necho started $?\nexit\n';
    assert.match(await scene.runOk('ssh', ['-T', host, 'sh'], script), /^started 0$/m);
    const request = 'GET /file HTTP/1.0\r\n\r\n';
    const answer = await waitFor('the server answers', async () => {
      const { stdout } = await scene.run('ssh', ['-W', 'localhost:8000', host], request);
      return stdout.length > 0 ? stdout : undefined;
    });
    // The end of what is sent ends a microVM's answer as well, wherever that is.
    if (!isOnVms) assert.equal(sha(answer.subarray(answer.indexOf('\r\n\r\n') + 4)), sha(bytes));
    const local = scene.path('forwarded');
    const client = scene.spawn('ssh', ['-N', '-L', `${local}:127.0.0.1:8000`, host]);
    await waitFor('the forward stands', () => existsSync(local));
    const curl = await scene.runOk('curl', [
      '-s',
      '--unix-socket',
      local,
      'http://localhost/file',
      '-o',
      'fetched',
    ]);
    assert.equal(curl, '');
    assert.equal(sha(readFileSync(scene.path('fetched'))), sha(bytes));
    client.kill('SIGTERM');
    await endOf(client);
  });

  it('are no one else’s: neither the host’s loopback nor other hosts, and none of ours is offered to the sandbox', async () => {
    let visits = 0;
    await using server = await HostServer.start(() => {
      visits += 1;
    });
    const own = await scene.run('ssh', ['-W', `127.0.0.1:${server.port}`, host], 'GET / HTTP/1.0\r\n\r\n');
    assert.equal(own.stdout.toString(), '');
    for (const elsewhere of [`192.0.2.1:${server.port}`, `example.com:80`, `10.0.2.2:80`]) {
      const end = await scene.run('ssh', ['-W', elsewhere, host], 'GET / HTTP/1.0\r\n\r\n');
      assert.match(end.stderr, /open failed: (?:connect failed|administratively prohibited)/);
    }
    assert.equal(visits, 0);
    const reverse = await scene.run('ssh', [
      '-N',
      '-R',
      `7000:127.0.0.1:${server.port}`,
      '-o',
      'ExitOnForwardFailure=yes',
      host,
    ]);
    assert.match(reverse.stderr, /remote port forwarding failed/);
    const agent = await scene.run('ssh', ['-A', host, 'echo "[$SSH_AUTH_SOCK]"']);
    assert.equal(agent.stdout.toString(), '[]\n');
  });
});

describe('squash ssh', () => {
  it('says what is wrong with its words', async () => {
    for (const [words, sentence] of [
      [['ssh'], /<id> is missing/],
      [['ssh', '--config', 'dev'], /no id/],
      [['ssh', '--', '-oProxyCommand=x'], /is missing/],
      [['ssh', 'a b'], /names no sandbox/],
    ] as const) {
      const end = await squash(scene.daemon, [...words], { env: scene.env });
      assert.equal(end.code, 125);
      assert.match(end.stderr, sentence);
    }
    const none = await squash(scene.daemon, ['ssh', 'dev'], { env: { ...scene.env, PATH: '/nowhere' } });
    assert.deepEqual([none.code, /openssh-client/.test(none.stderr)], [127, true]);
  });
});
