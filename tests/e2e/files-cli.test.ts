/** `squash cp` and `squash files` against a real daemon, and against a sandbox that sends what no tar should hold. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileMatchesSchema, fileSchema } from '@squash/contract/file';
import { Squash } from '@squash/sdk';
import { tarEnd, tarHeader } from '@squash/sdk/tar-writer';
import { z } from 'zod';
import { squash, squashOk, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

describe('squash cp and squash files', () => {
  let daemon: TestDaemon;
  let directory: string;
  const at = (name: string): string => join(directory, name);
  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'squash-cp-'));
    daemon = await TestDaemon.start();
    await squashOk(daemon, ['create', 'box', '--layers', '000-base-test']);
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true });
  });
  const sh = (text: string): Promise<string> => squashOk(daemon, ['exec', '-n', 'box', '--shell', text]);

  it('copy a file and a tree there and back, the same', async () => {
    mkdirSync(at('tree/sub'), { recursive: true });
    writeFileSync(at('tree/sub/file'), 'x'.repeat(300_000), { mode: 0o755 });
    writeFileSync(at('tree/ü'), 'y');
    execFileSync('ln', ['-s', 'sub/file', at('tree/link')]);
    writeFileSync(Buffer.concat([Buffer.from(at('tree/sub/')), Buffer.from([0xff])]), 'z', { mode: 0o440 });
    utimesSync(at('tree/sub'), 1_000_000_000, 1_000_000_000);
    await squashOk(daemon, ['cp', at('tree'), 'box:/root']);
    assert.equal((await sh('cd /root/tree && find . | sort')).split('\n').length, 6);
    await squashOk(daemon, ['cp', 'box:/root/tree', at('back')]);
    assert.equal(execFileSync('diff', ['-r', '--no-dereference', at('tree'), at('back')]).toString(), '');
    // Times to the second; a link has its own.
    const words = ['.', '-mindepth', '1', '-not', '-type', 'l', '-printf', '%P %m %Ts\\n'];
    const lines = (name: string): string[] =>
      execFileSync('find', words, { cwd: at(name), encoding: 'latin1' })
        .split('\n')
        .sort();
    assert.deepEqual(lines('back'), lines('tree'));
    assert.equal(lstatSync(at('back')).mode & 0o777, 0o755);
    await squashOk(daemon, ['cp', at('tree/ü'), 'box:/root/renamed']);
    await squashOk(daemon, ['cp', 'box:/root/renamed', directory]);
    assert.equal(readFileSync(at('renamed'), 'utf8'), 'y');
    const again = await squash(daemon, ['cp', 'box:/root/renamed', directory]);
    assert.match(again.stderr, /file_exists/);
    await squashOk(daemon, ['cp', '--force', 'box:/root/renamed', directory]);
    assert.equal(await squashOk(daemon, ['cp', 'box:/root/renamed', '-']), 'y');
    assert.equal((await squash(daemon, ['cp', 'a', 'b'])).code, 2);
    assert.match((await squash(daemon, ['cp', 'box:/root/none', at('none')])).stderr, /file_not_found/);
    assert.ok(!existsSync(at('none')));
  });

  it('copy from one sandbox to another, and within one', async () => {
    await squashOk(daemon, ['create', 'other', '--layers', '000-base-test']);
    await sh('mkdir -p /root/from/sub; echo one > /root/from/sub/file; chmod 750 /root/from/sub/file');
    await squashOk(daemon, ['cp', 'box:/root/from', 'other:/root']);
    await squashOk(daemon, ['cp', 'box:/root/from/sub/file', 'other:/root/alone']);
    await squashOk(daemon, ['cp', 'box:/root/from', 'box:/root/within']);
    const there = await squashOk(daemon, [
      'exec',
      '-n',
      'other',
      '-c',
      'cd /root; cat from/sub/file alone; stat -c %a alone',
    ]);
    assert.equal(there, 'one\none\n750');
    assert.equal(await sh('cat /root/within/sub/file'), 'one');
    assert.match((await squash(daemon, ['cp', 'box:/none', 'other:/x'])).stderr, /file_not_found/);
    await squashOk(daemon, ['rm', 'other']);
  });

  it('print no name or line of a sandbox as it is', async () => {
    await sh(
      `mkdir -p /root/odd; cd /root/odd; printf 'a\\033]0;title\\007needle\\n' > "$(printf 'esc\\033[31m\\nline')"`,
    );
    for (const words of [
      ['files', 'ls', 'box', '/root/odd'],
      ['files', 'ls', '--quiet', 'box', '/root/odd'],
      ['files', 'find', 'box', '/root/odd', '**'],
      ['files', 'grep', 'box', '/root/odd', 'needle'],
      ['files', 'ls', '--json', 'box', '/root/odd'],
    ]) {
      const stdout = await squashOk(daemon, words);
      assert.doesNotMatch(stdout, /(?!\n)\p{Cc}/u, words.join(' '));
      assert.match(stdout, /esc/, words.join(' '));
    }
  });

  it('make, move, remove, look and search, with --json as the contract has it', async () => {
    const json = async (...words: string[]): Promise<unknown> =>
      JSON.parse(await squashOk(daemon, ['files', ...words, '--json']));
    fileSchema.parse(await json('mkdir', '-p', '-m', '700', 'box', '/root/new/deep'));
    await sh('echo needle > /root/new/file');
    fileSchema.parse(await json('mv', 'box', '/root/new/file', '/root/new/moved'));
    assert.equal(fileSchema.parse(await json('stat', 'box', '/root/new/moved')).size, 7);
    assert.deepEqual(
      z
        .array(fileSchema)
        .parse(await json('ls', '--depth', '3', 'box', '/root/new'))
        .map(({ path }) => path),
      ['deep', 'moved'],
    );
    assert.equal(
      fileMatchesSchema.parse(await json('grep', '-i', 'box', '/root/new', 'NEEDLE')).items.length,
      1,
    );
    assert.equal((await squash(daemon, ['files', 'grep', 'box', '/root/new', 'nothing'])).code, 1);
    const wrong = await squash(daemon, ['files', 'grep', '--regex', 'box', '/root/new', 'a(']);
    assert.match(wrong.stderr, /: the expression is not valid: Missing '\)'.*\(invalid_request\)/);
    assert.equal(await squashOk(daemon, ['files', 'cat', 'box', '/root/new/moved']), 'needle');
    assert.match((await squash(daemon, ['files', 'rm', 'box', '/root/new'])).stderr, /directory_not_empty/);
    await squashOk(daemon, ['files', 'rm', '-r', 'box', '/root/new']);
    await squashOk(daemon, ['files', 'rm', '-f', 'box', '/root/new']);
  });

  it('watch until what is watched is gone', async () => {
    await sh('mkdir /root/watched');
    const child = startCli(daemon, ['watch', 'box', '/root/watched']);
    let text = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    const ended = once(child, 'exit');
    while (!text.includes('created  file')) await sh('rm -f /root/watched/file; : > /root/watched/file');
    await sh('rm -r /root/watched');
    assert.deepEqual(await ended, [0, null]);
  });
});

describe('squash cp from a sandbox that lies', () => {
  it('writes nothing outside of the new directory', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'squash-liar-'));
    const script = `
import io, json, sys, tarfile
out = io.BytesIO(); tar = tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT)
for name, type, target in json.loads(sys.argv[1]):
    info = tarfile.TarInfo(name); info.type = type.encode(); info.linkname = target; info.mode = 0o7777
    data = b"escaped" if type == "0" else b""; info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
tar.close(); sys.stdout.buffer.write(out.getvalue())
`;
    let tar = Buffer.alloc(0);
    /** What is done before the second half of the tar comes. */
    let meanwhile: (() => Promise<void>) | undefined;
    const stat = {
      path: '/d',
      type: 'directory',
      size: 0,
      mode: '0755',
      uid: 0,
      gid: 0,
      modified_at: '',
      etag: null,
    };
    const server = createServer((incoming, response) => {
      if (incoming.url?.includes('/stat') === true) response.end(JSON.stringify(stat));
      else if (meanwhile === undefined) response.end(tar);
      else {
        response.write(tar.subarray(0, 512));
        void meanwhile().then(() => response.end(tar.subarray(512)));
      }
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      mkdirSync(join(directory, 'outside'));
      for (const [number, entries] of [
        [['../outside/new', '0', '']],
        [[join(directory, 'outside/new'), '0', '']],
        [
          ['link', '2', '../outside'],
          ['link/new', '0', ''],
        ],
        [
          ['link', '2', '../outside'],
          ['link', '5', ''],
          ['link/new', '0', ''],
        ],
        [['dev', '3', '']],
        [['hard', '1', '../outside/new']],
        [
          ['same', '5', ''],
          ['same', '0', ''],
        ],
      ].entries()) {
        tar = execFileSync('python3', ['-c', script, JSON.stringify(entries)]);
        const { code } = await squash(undefined, [
          '--url',
          url,
          'cp',
          'box:/d',
          join(directory, `d${number}`),
        ]);
        assert.notEqual(code, 0, JSON.stringify(entries));
        assert.deepEqual(readdirSync(join(directory, 'outside')), [], JSON.stringify(entries));
      }
      tar = execFileSync('python3', ['-c', script, JSON.stringify([['file', '0', '']])]);
      assert.equal(
        (await squash(undefined, ['--url', url, 'cp', 'box:/d', join(directory, 'good')])).code,
        0,
      );
      assert.equal(lstatSync(join(directory, 'good/file')).mode & 0o7000, 0);
      // A sandbox that has the place mounted puts a link where a directory was made.
      const swapped = [
        ['sub', '5', ''],
        ['sub/new', '0', ''],
      ];
      tar = execFileSync('python3', ['-c', script, JSON.stringify(swapped)]);
      const made = join(directory, 'swapped/sub');
      meanwhile = async () => {
        await waitFor('the directory', () => existsSync(made));
        renameSync(made, `${made}.gone`);
        symlinkSync('../outside', made);
      };
      const { code } = await squash(undefined, ['--url', url, 'cp', 'box:/d', join(directory, 'swapped')]);
      meanwhile = undefined;
      assert.deepEqual([code, readdirSync(join(directory, 'outside'))], [1, []]);
      tar = execFileSync('python3', ['-c', script, JSON.stringify([['file', '0', '']])]);
      // A record that says it is nothing long would be read for ever.
      const records = Buffer.from('10 path=a\n0 path=b\n');
      const python =
        'import sys,tarfile; t=tarfile.TarInfo("x"); t.type=b"x"; t.size=int(sys.argv[1]); sys.stdout.buffer.write(t.tobuf())';
      const header = execFileSync('python3', ['-c', python, String(records.length)]);
      const good = tar;
      tar = Buffer.concat([header, records, Buffer.alloc(512 - records.length), good]);
      assert.match(
        (await squash(undefined, ['--url', url, 'cp', 'box:/d', join(directory, 'endless')])).stderr,
        /no whole tar/,
      );
      // Cut off in the middle.
      tar = good.subarray(0, 514);
      assert.notEqual(
        (await squash(undefined, ['--url', url, 'cp', 'box:/d', join(directory, 'cut')])).code,
        0,
      );
    } finally {
      server.closeAllConnections();
      server.close();
      rmSync(directory, { recursive: true });
    }
  });

  it('and of the SDK follow no link that a sandbox puts in the place of the directory they fill', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'squash-liar-'));
    const [shared, outside] = [join(directory, 'shared'), join(directory, 'outside')];
    const common = { type: 'file', mode: 0o644, mtimeMs: 0, size: 0, target: '' } as const;
    // As a sandbox would that has the directory above attached.
    const swap = async () => {
      const name = await waitFor('the first file', () =>
        readdirSync(shared).find((each) => existsSync(join(shared, each, 'first'))),
      );
      renameSync(join(shared, name), join(shared, 'moved'));
      symlinkSync(outside, join(shared, name));
    };
    const server = createServer((incoming, response) => {
      const path = incoming.url ?? '';
      const type = 'directory';
      if (path.includes('/stat')) return void response.end(JSON.stringify({ type, path: '/d' }));
      if (!path.includes('/archive')) return void response.end(JSON.stringify({ id: 'box', state: 'ready' }));
      response.write(tarHeader({ ...common, name: 'first' }));
      void swap().then(() => {
        response.write(tarHeader({ ...common, name: 'second' }));
        response.write(tarHeader({ ...common, type, name: 'below' }));
        response.write(tarHeader({ ...common, name: 'below/third' }));
        response.write(tarHeader({ ...common, type: 'symlink', name: 'link', target: '/' }));
        response.end(tarEnd());
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const box = await new Squash({ url, token: 'x' }).sandboxes.get('box');
    const fill: readonly ((target: string) => Promise<unknown>)[] = [
      (target) => squash(undefined, ['--url', url, 'cp', 'box:/d', target]),
      (target) => box.files.downloadDirectory('/d', target),
    ];
    try {
      mkdirSync(outside);
      for (const doing of fill) {
        mkdirSync(shared);
        await doing(join(shared, 'to'));
        assert.deepEqual(readdirSync(outside), []);
        assert.deepEqual(readdirSync(join(shared, 'moved')).sort(), ['below', 'first', 'link', 'second']);
        rmSync(shared, { recursive: true });
      }
    } finally {
      server.closeAllConnections();
      server.close();
      rmSync(directory, { recursive: true });
    }
  });
});
