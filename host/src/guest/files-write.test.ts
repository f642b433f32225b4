/** Writes that replace, append or refuse, through a real PID 1. */
import assert from 'node:assert/strict';
import {
  chmod,
  chown,
  link,
  mkdir,
  readdir,
  readFile,
  readlink,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { GuestErrno } from './guest-error.ts';
import type { FileStat } from './guest.ts';
import { guestIsMissing, RealGuest } from '../../../tests/support/real-guest.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const options = { skip: guestIsMissing };
const asRoot = { skip: guestIsMissing || (process.getuid?.() === 0 ? false : 'needs root') };

const withErrno = (errno: string) => (error: unknown) =>
  error instanceof AppError && error.cause instanceof GuestErrno && error.cause.code === errno;

async function* pieces(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

async function* broken(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
  throw new Error('the client is gone');
}

const replace = { how: 'replace' } as const;

test('a file that is replaced keeps mode and owner, and readers see one or the other', options, async () => {
  await using guest = await RealGuest.start();
  const path = join(guest.directory, 'file');
  await guest.client.files.write(path, pieces('new'), replace);
  assert.equal((await stat(path)).mode & 0o7777, 0o644);
  await chmod(path, 0o751);
  async function* looked(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('x'.repeat(100_000));
    assert.equal(await readFile(path, 'utf8'), 'new');
    yield Buffer.from('y');
  }
  await guest.client.files.write(path, looked(), replace);
  assert.equal(await readFile(path, 'utf8'), `${'x'.repeat(100_000)}y`);
  assert.equal((await stat(path)).mode & 0o7777, 0o751);
  await guest.client.files.write(path, pieces('z'), { ...replace, mode: 0o4700 });
  assert.equal((await stat(path)).mode & 0o7777, 0o4700);
  const deep = join(guest.directory, 'a/b/c');
  await guest.client.files.write(deep, pieces('z'), { ...replace, createParents: true, mode: 0o600 });
  assert.equal((await stat(deep)).mode & 0o7777, 0o600);
});

test('an upload that ends early leaves the old file and nothing beside it', options, async () => {
  await using guest = await RealGuest.start();
  const directory = join(guest.directory, 'd');
  const path = join(directory, 'file');
  await mkdir(directory);
  await writeFile(path, 'old');
  const long = 'x'.repeat(200_000);
  await assert.rejects(guest.client.files.write(path, broken(long), replace), /the client is gone/);
  await assert.rejects(guest.client.files.write(join(directory, 'fresh'), broken(long), replace), /gone/);
  await waitFor('nothing but the file is there', async () => (await readdir(directory)).join() === 'file');
  assert.equal(await readFile(path, 'utf8'), 'old');
});

test('a symlink is written through to what it names, a dangling one makes it', options, async () => {
  await using guest = await RealGuest.start();
  const at = (name: string): string => join(guest.directory, name);
  await mkdir(at('d'));
  await writeFile(at('d/target'), 'old');
  await symlink('d/target', at('link'));
  await symlink(at('link'), at('absolute'));
  await symlink('d/missing', at('dangling'));
  await symlink('loop', at('loop'));
  await guest.client.files.write(at('absolute'), pieces('new'), replace);
  await guest.client.files.write(at('dangling'), pieces('made'), replace);
  assert.equal(await readFile(at('d/target'), 'utf8'), 'new');
  assert.equal(await readFile(at('d/missing'), 'utf8'), 'made');
  assert.equal(await readlink(at('link')), 'd/target');
  assert.deepEqual((await readdir(at('d'))).sort(), ['missing', 'target']);
  await assert.rejects(guest.client.files.write(at('loop'), pieces(), replace), withErrno('ELOOP'));
});

test('what is no regular file is not replaced', options, async () => {
  await using guest = await RealGuest.start();
  for (const [path, errno] of [
    [guest.directory, 'EISDIR'],
    [`${guest.directory}/new/`, 'EISDIR'],
    ['/', 'EISDIR'],
    ['/dev/null', 'EINVAL'],
    [join(guest.directory, 'init.sock'), 'EINVAL'],
    [join(guest.directory, 'no/file'), 'ENOENT'],
  ] as const) {
    await assert.rejects(guest.client.files.write(path, pieces(), replace), withErrno(errno), path);
  }
});

test(
  'only a new file, or only over a known state, is a condition that holds to the end',
  options,
  async () => {
    await using guest = await RealGuest.start();
    const path = join(guest.directory, 'file');
    const overOf = ({ inode, changedUs }: FileStat) => {
      assert.ok(inode !== undefined && changedUs !== undefined);
      return { ...replace, over: { inode, changedUs } };
    };
    const fresh = { ...replace, exclusive: true };
    await guest.client.files.write(path, pieces('first'), fresh);
    await assert.rejects(guest.client.files.write(path, pieces('x'), fresh), withErrno('EEXIST'));
    await assert.rejects(
      guest.client.files.write(path, pieces('x'), { exclusive: true }),
      withErrno('EEXIST'),
    );
    const other = join(guest.directory, 'other');
    async function* overtaken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x'.repeat(100_000));
      await writeFile(other, 'somebody else was first');
      yield Buffer.from('y');
    }
    await assert.rejects(guest.client.files.write(other, overtaken(), fresh), withErrno('EEXIST'));
    assert.equal(await readFile(other, 'utf8'), 'somebody else was first');

    const seen = overOf(await guest.client.files.stat(path));
    await guest.client.files.write(path, pieces('second'), seen);
    await assert.rejects(guest.client.files.write(path, pieces('third'), seen), withErrno('ESTALE'));
    assert.equal(await readFile(path, 'utf8'), 'second');
    await guest.client.files.remove(path);
    await assert.rejects(guest.client.files.write(path, pieces('x'), seen), withErrno('ESTALE'));
  },
);

test('appending goes on behind what is there', options, async () => {
  await using guest = await RealGuest.start();
  const path = join(guest.directory, 'file');
  await guest.client.files.write(path, pieces('a', 'b'), { how: 'append' });
  await guest.client.files.write(path, pieces('c'), { how: 'append' });
  assert.equal(await readFile(path, 'utf8'), 'abc');
});

test('a replaced file’s other names keep the old bytes', options, async () => {
  await using guest = await RealGuest.start();
  const [path, other] = ['a', 'b'].map((name) => join(guest.directory, name)) as [string, string];
  await writeFile(path, 'old');
  await link(path, other);
  await guest.client.files.write(path, pieces('new'), replace);
  assert.equal(await readFile(other, 'utf8'), 'old');
});

test('an opened file says what it is, in front of its bytes', options, async () => {
  await using guest = await RealGuest.start();
  const path = join(guest.directory, 'file');
  await writeFile(path, '0123456789');
  using opened = await guest.client.files.open(path, { offset: 4, length: 3 });
  assert.equal(opened.stat.size, 10);
  const chunks: Buffer[] = [];
  for await (const chunk of opened.data()) chunks.push(chunk);
  assert.equal(Buffer.concat(chunks).toString(), '456');
  await assert.rejects(guest.client.files.open(guest.directory), withErrno('EISDIR'));
});

test('owners are given to the file and to the parents made for it', asRoot, async () => {
  await using guest = await RealGuest.start();
  const owner = { uid: 12_345, gid: 23_456 };
  const ownerOf = async (name: string): Promise<string> => {
    const { uid, gid } = await stat(join(guest.directory, name));
    return `${uid}:${gid}`;
  };
  const path = join(guest.directory, 'a/b/file');
  await guest.client.files.write(path, pieces('x'), { ...replace, createParents: true, owner });
  await guest.client.files.makeDirectory(join(guest.directory, 'a/c/d'), {
    createParents: true,
    owner,
    mode: 0o750,
  });
  for (const name of ['a', 'a/b', 'a/b/file', 'a/c', 'a/c/d'])
    assert.equal(await ownerOf(name), '12345:23456', name);
  // Replaced by root it stays the user's; one in place gets the owner asked for.
  await guest.client.files.write(path, pieces('y'), replace);
  assert.equal(await ownerOf('a/b/file'), '12345:23456');
  await guest.client.files.write(path, pieces('y'), { owner: { gid: 1 } });
  assert.equal(await ownerOf('a/b/file'), '12345:1');
});

test('a user replaces only what is his to write', asRoot, async () => {
  await using guest = await RealGuest.start();
  const as = { uid: 12_345, gid: 23_456 };
  const home = join(guest.directory, 'home');
  await chmod(guest.directory, 0o755);
  await mkdir(home);
  await chown(home, as.uid, as.gid);
  await writeFile(join(home, 'roots'), 'root');
  await writeFile(join(home, 'shared'), 'root', { mode: 0o666 });
  await chmod(join(home, 'shared'), 0o4666);
  await assert.rejects(
    guest.client.files.write(join(home, 'roots'), pieces('x'), { ...replace, as }),
    withErrno('EACCES'),
  );
  assert.equal(await readFile(join(home, 'roots'), 'utf8'), 'root');
  // It can't be given back to root, so it is the user's now, and runs as nobody else.
  await guest.client.files.write(join(home, 'shared'), pieces('x'), { ...replace, as });
  const { uid, mode } = await stat(join(home, 'shared'));
  assert.deepEqual([uid, mode & 0o7777], [as.uid, 0o666]);
});

test(
  'bytes go into a file at an offset, and size and time are set, with the rest of it as it was',
  options,
  async () => {
    await using guest = await RealGuest.start();
    const { files } = guest.client;
    const path = join(guest.directory, 'file');
    await writeFile(path, '0123456789');
    await chmod(path, 0o751);
    await link(path, join(guest.directory, 'other'));
    await files.write(path, pieces('ab', 'c'), { offset: 4 });
    assert.equal(await readFile(path, 'utf8'), '0123abc789');
    await files.write(path, pieces('x'), { offset: 2, size: 2 });
    assert.equal(await readFile(join(guest.directory, 'other'), 'utf8'), '01x');
    await files.change(path, { size: 5, mtimeMs: 981_173_106_789 });
    assert.deepEqual(await readFile(path), Buffer.from('01x\0\0'));
    const { mode, mtimeMs } = await stat(path);
    assert.deepEqual([mode & 0o777, Math.round(mtimeMs)], [0o751, 981_173_106_789]);
    await assert.rejects(files.change(guest.directory, { size: 0 }), withErrno('EISDIR'));
    await assert.rejects(files.change(guest.directory, { recursive: true, mtimeMs: 0 }), /out of range/);
    await assert.rejects(files.write(path, pieces('x'), { offset: 1, exclusive: true }), withErrno('EEXIST'));
  },
);
