/** Lists with depth and patterns, searches, copies, links and changes of trees, through a real PID 1. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmod,
  lstat,
  mkdir,
  readFile,
  readlink,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { GuestErrno } from './guest-error.ts';
import type { FileListing, FileSearch } from './guest.ts';
import { guestIsMissing, RealGuest } from '../../../tests/support/real-guest.ts';

const options = { skip: guestIsMissing };
const asRoot = { skip: guestIsMissing || (process.getuid?.() === 0 ? false : 'needs root') };

const withErrno = (errno: string) => (error: unknown) =>
  error instanceof AppError && error.cause instanceof GuestErrno && error.cause.code === errno;

async function plant(root: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  }
}

async function listed(guest: RealGuest, path: string, listing: FileListing): Promise<string[]> {
  const found: string[] = [];
  const list = guest.client.files.list(path, listing);
  for (let next = await list.next(); ; next = await list.next()) {
    if (next.done === true) return next.value ? [...found, '…'] : found;
    found.push(next.value.path.toString());
  }
}

async function searched(guest: RealGuest, path: string, search: FileSearch): Promise<string[]> {
  const found: string[] = [];
  const matches = guest.client.files.search(path, search);
  for (let next = await matches.next(); ; next = await matches.next()) {
    if (next.done === true) return next.value ? [...found, '…'] : found;
    const { path: name, line, column, text } = next.value;
    found.push(`${name.toString()}:${line}:${column}:${text.toString()}`);
  }
}

test('a tree is listed in order, to a depth, and goes on behind any entry', options, async () => {
  await using guest = await RealGuest.start();
  const root = join(guest.directory, 'tree');
  await plant(root, { 'b/x/1': '', 'b/y': '', 'b.c': '', 'a/2': '', c: '' });
  await symlink('.', join(root, 'b/loop'));
  const all = ['a', 'a/2', 'b', 'b/loop', 'b/x', 'b/x/1', 'b/y', 'b.c', 'c'];
  assert.deepEqual(await listed(guest, root, {}), ['a', 'b', 'b.c', 'c']);
  assert.deepEqual(
    await listed(guest, root, { depth: 2 }),
    all.filter((path) => path !== 'b/x/1'),
  );
  assert.deepEqual(await listed(guest, root, { depth: 9 }), all);
  for (const [i, path] of all.entries()) {
    const after = Buffer.from(path);
    assert.deepEqual(await listed(guest, root, { depth: 9, after }), all.slice(i + 1), path);
    const part = all.slice(i + 1, i + 3);
    const expected = i + 3 < all.length ? [...part, '…'] : part;
    assert.deepEqual(await listed(guest, root, { depth: 9, after, entriesMax: 2 }), expected, path);
  }
  // Behind what is there no more.
  assert.deepEqual(await listed(guest, root, { depth: 9, after: Buffer.from('b/xx/gone') }), [
    'b/y',
    'b.c',
    'c',
  ]);
});

test('patterns find paths, and go nowhere in vain', options, async () => {
  await using guest = await RealGuest.start();
  const root = join(guest.directory, 'tree');
  await plant(root, {
    'src/a.ts': '',
    'src/b/c.test.ts': '',
    'src/.git/x.ts': '',
    'README.md': '',
    'lib/[x].js': '',
  });
  const glob = (pattern: string): Promise<string[]> => listed(guest, root, { pattern, depth: 64 });
  assert.deepEqual(await glob('**/*.ts'), ['src/a.ts', 'src/b/c.test.ts']);
  assert.deepEqual(await glob('src/*.{ts,md}'), ['src/a.ts']);
  assert.deepEqual(await glob('src/.*/*'), ['src/.git/x.ts']);
  assert.deepEqual(await glob('*'), ['README.md', 'lib', 'src']);
  assert.deepEqual(await glob('src/**'), ['src', 'src/a.ts', 'src/b', 'src/b/c.test.ts']);
  assert.deepEqual(await glob('[!a-z]*'), ['README.md']);
  assert.deepEqual(await glob('lib/\\[?\\].js'), ['lib/[x].js']);
  for (const pattern of ['', '/a', 'a//b', '[a', '{a', 'a'.repeat(2_000)]) {
    await assert.rejects(glob(pattern), { code: 'guest_failed' }, pattern);
  }
});

test('a list copes with deep and wide trees, FIFOs and closed directories', options, async () => {
  await using guest = await RealGuest.start({ openFilesMax: 64 });
  const script = `
import os
os.mkdir("deep"); fd = os.open("deep", os.O_RDONLY)
for level in range(3000):
    os.mkdir("d", dir_fd=fd); os.mkfifo("p", dir_fd=fd)
    below = os.open("d", os.O_RDONLY, dir_fd=fd); os.close(fd); fd = below
os.mkdir("wide")
for i in range(3000): os.mkdir("wide/%d" % i)
`;
  execFileSync('python3', ['-c', script], { cwd: guest.directory });
  const deep = await listed(guest, join(guest.directory, 'deep'), { depth: 2_048 });
  // As far as a path can be named.
  assert.equal(deep.filter((path) => path.endsWith('d')).length, 2_048);
  assert.equal(deep.filter((path) => path.endsWith('p')).length, 2_048);
  assert.equal((await listed(guest, join(guest.directory, 'wide'), { depth: 9 })).length, 3_000);
  await guest.client.files.remove(join(guest.directory, 'deep'), { recursive: true });
});

test('a search tells file, line and column, and leaves binary files out', options, async () => {
  await using guest = await RealGuest.start();
  const root = join(guest.directory, 'tree');
  await plant(root, {
    'a.txt': 'one\ntwo needle two\nneedle needle\n',
    'b/c.md': 'no end of line: Needle',
    binary: 'needle\n\0needle\n',
    long: `${'x'.repeat(100_000)}needle${'y'.repeat(100_000)}\nneedle`,
  });
  execFileSync('mkfifo', [join(root, 'fifo')]);
  assert.deepEqual(await searched(guest, root, { text: 'needle', pattern: '*.txt' }), [
    'a.txt:2:5:two needle two',
    'a.txt:3:1:needle needle',
  ]);
  assert.deepEqual(
    await searched(guest, root, { text: 'NEEDLE$', isRegex: true, ignoresCase: true, pattern: '**/*.md' }),
    ['b/c.md:1:17:no end of line: Needle'],
  );
  assert.deepEqual(await searched(guest, root, { text: '(one|T.o) ?n', isRegex: true, ignoresCase: true }), [
    'a.txt:2:1:two needle two',
  ]);
  const long = await searched(guest, join(root, 'long'), { text: 'needle', lineBytesMax: 128 });
  assert.equal(long[0], `:1:100001:${'x'.repeat(64)}needle${'y'.repeat(58)}`);
  assert.equal(long[1], ':2:1:needle');
  assert.deepEqual((await searched(guest, root, { text: 'needle', matchesMax: 1 })).slice(1), ['…']);
  assert.deepEqual(await searched(guest, root, { text: 'needle', bytesMax: 3 }), ['…']);
  assert.deepEqual(await searched(guest, join(root, 'binary'), { text: 'needle' }), []);
  for (const text of ['(', `${'('.repeat(5)}a{255}${'){255}'.repeat(5)}`]) {
    await assert.rejects(searched(guest, root, { text, isRegex: true }), { code: 'guest_failed' }, text);
  }
  await assert.rejects(searched(guest, join(root, 'fifo'), { text: 'x' }), withErrno('EINVAL'));
});

test('files and trees are copied with modes, times, links and holes', options, async () => {
  await using guest = await RealGuest.start();
  const at = (name: string): string => join(guest.directory, name);
  await plant(at('tree'), { 'a/file': 'content', 'a/closed/x': 'y' });
  await chmod(at('tree/a/file'), 0o4750);
  await chmod(at('tree/a/closed'), 0o555);
  await symlink('../outside', at('tree/link'));
  execFileSync('mkfifo', [at('tree/fifo')]);
  await writeFile(at('tree/sparse'), '');
  await truncate(at('tree/sparse'), 50_000_000);
  await assert.rejects(guest.client.files.copy({ from: at('tree'), to: at('copy') }), withErrno('EISDIR'));
  await guest.client.files.copy(
    { from: at('tree'), to: at('new/copy') },
    { recursive: true, createParents: true },
  );
  const difference = execFileSync('sh', ['-c', 'diff -r --no-dereference -x fifo tree new/copy || :'], {
    cwd: guest.directory,
  });
  assert.equal(difference.toString(), '');
  assert.equal((await stat(at('new/copy/a/file'))).mode & 0o7777, 0o4750);
  assert.equal((await stat(at('new/copy/a/closed'))).mode & 0o7777, 0o555);
  assert.equal((await stat(at('new/copy/a/file'))).mtimeMs, (await stat(at('tree/a/file'))).mtimeMs);
  assert.equal(await readlink(at('new/copy/link')), '../outside');
  assert.ok((await lstat(at('new/copy/fifo'))).isFIFO());
  assert.ok((await stat(at('new/copy/sparse'))).blocks < 1_000);
  await assert.rejects(
    guest.client.files.copy({ from: at('tree'), to: at('new/copy') }, { recursive: true }),
    withErrno('EEXIST'),
  );
  await assert.rejects(
    guest.client.files.copy({ from: at('tree'), to: at('tree/a/in') }, { recursive: true }),
    withErrno('EINVAL'),
  );
  await writeFile(at('target'), 'old');
  await assert.rejects(
    guest.client.files.copy({ from: at('tree/a/file'), to: at('target') }, { exclusive: true }),
    withErrno('EEXIST'),
  );
  await guest.client.files.copy({ from: at('tree/a/file'), to: at('target') });
  assert.equal(await readFile(at('target'), 'utf8'), 'content');
  await assert.rejects(
    guest.client.files.copy({ from: '/dev/zero', to: at('endless') }),
    withErrno('EINVAL'),
  );
});

test('links are made, and what is moved may be held to a free place', options, async () => {
  await using guest = await RealGuest.start();
  const at = (name: string): string => join(guest.directory, name);
  await writeFile(at('file'), 'content');
  await guest.client.files.link(at('d/soft'), '../file', { createParents: true });
  await guest.client.files.link(at('hard'), at('file'), { isHard: true });
  assert.equal(await readFile(at('d/soft'), 'utf8'), 'content');
  assert.equal((await stat(at('hard'))).ino, (await stat(at('file'))).ino);
  await assert.rejects(guest.client.files.link(at('hard'), 'x'), withErrno('EEXIST'));
  await assert.rejects(
    guest.client.files.move(at('hard'), at('d/soft'), { exclusive: true }),
    withErrno('EEXIST'),
  );
  await guest.client.files.move(at('hard'), at('e/f/moved'), { createParents: true, exclusive: true });
  assert.equal(await readFile(at('e/f/moved'), 'utf8'), 'content');
});

test('modes of a tree leave its directories open, and its links what they are', asRoot, async () => {
  await using guest = await RealGuest.start();
  const at = (name: string): string => join(guest.directory, name);
  await plant(at('tree'), { 'a/file': '' });
  await writeFile(at('outside'), '', { mode: 0o600 });
  await symlink('../outside', at('tree/link'));
  const owner = { uid: 12_345 };
  await guest.client.files.change(at('tree'), { mode: 0o640, owner, recursive: true });
  const seen: string[] = [];
  for (const name of ['tree', 'tree/a', 'tree/a/file', 'tree/link', 'outside']) {
    const { mode, uid } = await lstat(at(name));
    seen.push(`${(mode & 0o7777).toString(8)} ${uid}`);
  }
  assert.deepEqual(seen, ['750 12345', '750 12345', '640 12345', '777 12345', '600 0']);
  await guest.client.files.change(at('tree/link'), { mode: 0o400 });
  assert.equal((await stat(at('outside'))).mode & 0o7777, 0o400);
  await assert.rejects(guest.client.files.change(at('gone'), { mode: 0o400 }), withErrno('ENOENT'));
});
