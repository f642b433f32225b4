/** `squash sync` against a real daemon, and against one that lies. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { endOf, squash, squashOk, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

interface Summary {
  readonly sent: number;
  readonly removed: number;
  readonly unchanged: number;
  readonly left_out: readonly string[];
}

describe('squash sync', () => {
  let daemon: TestDaemon;
  let directory: string;
  const at = (name: string): string => join(directory, name);
  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'squash-sync-'));
    daemon = await TestDaemon.start();
    await squashOk(daemon, ['create', 'box', '-l', '000-base-test']);
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true });
  });
  const sh = (text: string): Promise<string> => squashOk(daemon, ['exec', '-n', 'box', '-c', text]);
  const sync = async (...words: string[]): Promise<Summary> =>
    JSON.parse(await squashOk(daemon, ['sync', '--json', ...words])) as Summary;
  const counts = ({ sent, removed, unchanged }: Summary) => [sent, removed, unchanged];

  it('sends what differs there and back, and nothing twice', async () => {
    const deep = `sub/${'long-name-'.repeat(12)}`;
    mkdirSync(at(`tree/${deep}`), { recursive: true });
    writeFileSync(at('tree/file'), 'x'.repeat(600_000), { mode: 0o755 });
    writeFileSync(at(`tree/${deep}/ü`), 'y');
    execFileSync('sh', ['-c', String.raw`: > "$(printf 'tree/\377')"; mkfifo tree/fifo`], { cwd: directory });
    symlinkSync('sub', at('tree/link'));
    const dry = await squash(daemon, ['sync', '-n', at('tree'), 'box:/root/app']);
    assert.match(dry.stdout.toString(), /^\+ file$/m);
    assert.match((await squash(daemon, ['sync', 'box:/root/app', at('none')])).stderr, /file_not_found/);
    const first = await sync(at('tree'), 'box:/root/app');
    assert.deepEqual([counts(first), first.left_out], [[6, 0, 0], ['fifo']]);
    assert.deepEqual(counts(await sync(at('tree'), 'box:/root/app')), [0, 0, 6]);
    assert.deepEqual(counts(await sync('box:/root/app', at('back'))), [6, 0, 0]);
    assert.deepEqual(counts(await sync('box:/root/app', at('back'))), [0, 0, 6]);
    rmSync(at('tree/fifo'));
    execFileSync('diff', ['-r', '--no-dereference', at('tree'), at('back')]);
    const msOf = (name: string): number => Math.floor(statSync(at(name)).mtimeMs);
    assert.equal(msOf('back/file'), msOf('tree/file'));
    assert.equal(statSync(at('back/file')).mode & 0o777, 0o755);
    // Of the same size, a moment later.
    writeFileSync(at(`tree/${deep}/ü`), 'z');
    assert.deepEqual(counts(await sync(at('tree'), 'box:/root/app')), [1, 0, 5]);
    await sh('touch /root/app/file');
    assert.deepEqual(counts(await sync('--checksum', at('tree'), 'box:/root/app')), [0, 0, 6]);
    assert.deepEqual(counts(await sync(at('tree'), 'box:/root/app')), [1, 0, 5]);
  });

  it('removes with --delete what is there only, and leaves alone what is excluded', async () => {
    mkdirSync(at('some/keep'), { recursive: true });
    writeFileSync(at('some/a'), 'a');
    writeFileSync(at('some/x.log'), 'ours');
    writeFileSync(at('some/.squashignore'), '*.log\n');
    await sync(at('some'), 'box:/root/some');
    await sh(
      'cd /root/some; mkdir -p gone/deep logs; : > gone/deep/file; echo theirs > logs/y.log; mkdir b; : > b/in',
    );
    writeFileSync(at('some/b'), 'no directory');
    const refused = await squash(daemon, ['sync', at('some'), 'box:/root/some']);
    assert.match(refused.stderr, /"b" is a directory on the other side; --delete .*\(is_a_directory\)/);
    assert.deepEqual(counts(await sync('--delete', at('some'), 'box:/root/some')), [1, 1, 3]);
    assert.equal(
      await sh('cd /root/some; cat b logs/y.log; find . -type f | sort'),
      'no directorytheirs\n./.squashignore\n./a\n./b\n./logs/y.log',
    );
    // A sandbox has no say in what is excluded here.
    await sh('echo "" > /root/some/.squashignore');
    assert.deepEqual(
      counts(await sync('--delete', '--exclude', 'a', 'box:/root/some', at('some'))),
      [1, 0, 2],
    );
    assert.equal(readFileSync(at('some/.squashignore'), 'utf8'), '*.log\n');
    assert.equal(readFileSync(at('some/x.log'), 'utf8'), 'ours');
    // Whoever made a directory may keep no command waiting.
    rmSync(at('some/.squashignore'));
    execFileSync('mkfifo', [at('some/.squashignore')]);
    const { stderr } = await squash(daemon, ['sync', at('some'), 'box:/root/some']);
    assert.match(stderr, /\.squashignore can't be read: it is no regular file \(file_unreadable\)/);
  });

  it('writes through no link here, and makes none that leads out of the directory', async () => {
    mkdirSync(at('outside'));
    mkdirSync(at('inside'));
    symlinkSync(at('outside'), at('inside/d'));
    symlinkSync(join(at('outside'), 'file'), at('inside/f'));
    await sh(
      'mkdir -p /root/evil/d /root/evil/e; cd /root/evil; echo x > d/file; echo x > f; ln -s /etc/passwd p; ln -s e/../.. up; ln -s ../f e/f; mknod pipe p; chmod 0 e',
    );
    const { left_out: leftOut } = await sync('box:/root/evil', at('inside'));
    assert.deepEqual(leftOut, ['p', 'pipe', 'up']);
    assert.deepEqual(readdirSync(at('outside')), []);
    assert.ok(lstatSync(at('inside/d')).isDirectory() && lstatSync(at('inside/f')).isFile());
    assert.ok(!existsSync(at('inside/p')) && lstatSync(at('inside/e/f')).isSymbolicLink());
  });

  it('--watch follows changes in both directions', async () => {
    mkdirSync(at('live'));
    const there = startCli(daemon, ['sync', '--watch', '--delete', at('live'), 'box:/root/live']);
    const ended = endOf(there);
    writeFileSync(at('live/one'), '1');
    await waitFor('the file there', async () => (await sh('cat /root/live/one 2>/dev/null || true')) === '1');
    const back = startCli(daemon, ['sync', '--watch', 'box:/root/live', at('mirror')]);
    const over = endOf(back);
    await waitFor('the file back', () => existsSync(at('mirror/one')));
    writeFileSync(at('live/two'), '2');
    rmSync(at('live/one'));
    await waitFor('the second', () => existsSync(at('mirror/two')));
    assert.equal(await sh('ls /root/live'), 'two');
    there.kill('SIGINT');
    back.kill('SIGTERM');
    assert.deepEqual([(await ended).signal, (await over).signal], ['SIGINT', 'SIGTERM']);
  });
});

describe('squash sync from a sandbox that lies', () => {
  it('writes nothing outside of the directory, and nothing by halves', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'squash-sync-liar-'));
    const file = (path: string, type = 'file') => ({
      path,
      type,
      size: 10,
      mode: '0644',
      uid: 0,
      gid: 0,
      modified_at: '2026-01-01T00:00:00.000Z',
      etag: null,
    });
    let items: readonly object[] = [];
    let send = (response: ServerResponse): unknown => response.end('0123456789');
    const server = createServer((incoming, response) => {
      if (incoming.url?.includes('/list') === true) response.end(JSON.stringify({ items, next: null }));
      else if (incoming.url?.includes('/watch') === true)
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write('event: ready\ndata: {}\n\n');
      else send(response);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const pull = async () =>
        await squash(undefined, ['--url', url, 'sync', 'box:/d', join(directory, 'in')]);
      for (const lie of [
        [file('../out')],
        [file('/etc/out')],
        [file('a/b')],
        [file('a'), file('a/b')],
        [file('a', 'symlink'), file('a/b')],
        [file('..')],
        [file('a//b')],
        [file('a\0b')],
        [{ ...file('a'), size: -1 }],
        [{ ...file('a'), modified_at: 'never' }],
        [{ ...file('a'), path_base64: Buffer.from('../out').toString('base64') }],
      ]) {
        items = lie;
        const { code, stderr } = await pull();
        assert.deepEqual(
          [code, /\(archive_invalid\)/.test(stderr)],
          [1, true],
          `${JSON.stringify(lie)} ${stderr}`,
        );
      }
      // Names of a sandbox steer no terminal, as JSON neither.
      items = [file('\u009b2J\u202e', 'device')];
      const watching = startCli(undefined, [
        '--url',
        url,
        '--json',
        'sync',
        '--watch',
        'box:/d',
        join(directory, 'in'),
      ]);
      const [told] = (await once(watching.stdout ?? watching, 'data')) as [Buffer];
      watching.kill();
      assert.match(told.toString(), /"left_out":\["\\u009b2J\\u202e"\]/);
      items = [file('a')];
      send = (response) =>
        response.writeHead(200, { 'content-length': '10' }).write('01234', () => response.destroy());
      assert.equal((await pull()).code === 0, false);
      items = [{ ...file('a'), size: 1e15 }];
      assert.match((await pull()).stderr, /\(disk_full\)/);
      assert.deepEqual([readdirSync(directory), readdirSync(join(directory, 'in'))], [['in'], []]);
    } finally {
      server.closeAllConnections();
      server.close();
      rmSync(directory, { recursive: true });
    }
  });
});
