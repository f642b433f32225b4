/** Trees as tar, down and up, through a real PID 1; the other end is Debian's own tar. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import type { Extraction } from './guest.ts';
import { GuestErrno } from './guest-error.ts';
import { guestIsMissing, RealGuest } from '../../../tests/support/real-guest.ts';

const options = { skip: guestIsMissing };
const asRoot = { skip: guestIsMissing || (process.getuid?.() === 0 ? false : 'needs root') };

const withErrno = (errno: string) => (error: unknown) =>
  error instanceof AppError && error.cause instanceof GuestErrno && error.cause.code === errno;

async function archived(guest: RealGuest, path: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of guest.client.files.archive(path)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** In pieces that fit no block. */
async function* pieces(tar: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < tar.length; at += 12_345) yield tar.subarray(at, at + 12_345);
}

const extract = (
  guest: RealGuest,
  tar: Uint8Array,
  { into, ...options }: Extraction & { readonly into: string },
) => guest.client.files.extract(join(guest.directory, into), pieces(tar), options);

/** A tar with whatever names, by Python's own module. */
function crafted(entries: readonly Readonly<Record<string, string | number>>[]): Buffer {
  const script = `
import io, json, sys, tarfile
out = io.BytesIO()
tar = tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT)
for one in json.loads(sys.argv[1]):
    info = tarfile.TarInfo(one["name"])
    info.type = one.get("type", "0").encode()
    info.linkname = one.get("target", "")
    info.mode = one.get("mode", 0o644)
    info.uid = one.get("uid", 0)
    data = one.get("data", "").encode()
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
tar.close()
sys.stdout.buffer.write(out.getvalue())
`;
  return execFileSync('python3', ['-c', script, JSON.stringify(entries)]);
}

test('a tree goes down as tar and up again, the same', options, async () => {
  await using guest = await RealGuest.start();
  const at = (name: string): string => join(guest.directory, name);
  const long = 'n'.repeat(200);
  await mkdir(at(`tree/${long}/${long}`), { recursive: true });
  await writeFile(at(`tree/${long}/${long}/file`), 'deep');
  await writeFile(at('tree/empty'), '');
  await writeFile(at('tree/large'), 'x'.repeat(1_000_001), { mode: 0o751 });
  await mkdir(at('tree/closed'));
  await writeFile(at('tree/closed/in'), 'in');
  await symlink('x'.repeat(300), at('tree/link'));
  execFileSync('mkfifo', [at('tree/fifo')]);
  await utimes(at('tree/closed'), 1_000_000, 1_000_000);
  await chmod(at('tree/closed'), 0o555);
  const tar = await archived(guest, at('tree'));
  await mkdir(at('theirs'));
  execFileSync('tar', ['-x', '-C', at('theirs')], { input: tar });
  assert.equal(differenceOf(guest, 'tree', 'theirs'), '');

  const taken = await extract(guest, tar, { into: 'ours', createParents: true });
  assert.deepEqual(taken, { entries: 9, bytes: 1_000_007 });
  assert.equal(differenceOf(guest, 'tree', 'ours'), '');
  assert.equal((await stat(at('ours/large'))).mode & 0o7777, 0o751);
  const closed = await stat(at('ours/closed'));
  assert.deepEqual([closed.mode & 0o7777, closed.mtimeMs], [0o555, 1_000_000_000]);
  assert.ok((await lstat(at('ours/fifo'))).isFIFO());
  // What others make is read as well.
  for (const format of ['gnu', 'pax', 'ustar', 'v7']) {
    const paths = format === 'v7' || format === 'ustar' ? ['empty', 'large', 'closed'] : ['.'];
    const made = execFileSync('tar', ['-c', '--format', format, '-C', at('tree'), ...paths], {
      maxBuffer: 1e8,
    });
    await extract(guest, made, { into: format, createParents: true });
    assert.equal(await readFile(at(`${format}/closed/in`), 'utf8'), 'in', format);
    if (paths[0] === '.') assert.equal(differenceOf(guest, 'tree', format), '');
  }
});

function differenceOf(guest: RealGuest, one: string, other: string): string {
  const command = 'diff -r --no-dereference -x fifo "$0" "$1" || :';
  return execFileSync('sh', ['-c', command, one, other], { cwd: guest.directory }).toString();
}

test('a single file is a tar of one entry, and more than 8 GiB has its size', options, async () => {
  await using guest = await RealGuest.start();
  const path = join(guest.directory, 'file');
  await writeFile(path, 'content');
  const tar = await archived(guest, path);
  assert.equal(execFileSync('tar', ['-xO', 'file'], { input: tar }).toString(), 'content');
  await truncate(path, 2 ** 33 + 5);
  const archive = guest.client.files.archive(path);
  const first = (await archive.next()).value ?? Buffer.alloc(0);
  await archive.return();
  assert.ok(
    first
      .subarray(0, 2_048)
      .toString('latin1')
      .includes(`size=${2 ** 33 + 5}\n`),
  );
});

test('nothing of an archive lands outside, whatever its names and links', options, async () => {
  await using guest = await RealGuest.start();
  const at = (name: string): string => join(guest.directory, name);
  const file = (name: string) => ({ name, data: 'escaped' });
  const linkTo = (target: string) => ({ name: 'link', type: '2', target });
  await mkdir(at('outside'));
  await writeFile(at('outside/kept'), 'kept', { mode: 0o600 });
  for (const entries of [
    [file('../outside/new')],
    [file('a/../../outside/new')],
    [file(at('outside/new'))],
    [linkTo('../outside'), file('link/new')],
    [linkTo(at('outside')), file('link/new')],
    [linkTo('/proc/self/root'), file(`link${at('outside/new')}`)],
    [linkTo('.'), { ...linkTo('link/../..'), name: 'up' }, file('up/outside/new')],
    [{ name: 'hard', type: '1', target: '../outside/kept' }],
    [{ name: 'hard', type: '1', target: at('outside/kept') }],
    [linkTo('../outside'), { name: 'hard', type: '1', target: 'link/kept' }],
    [linkTo('../outside'), { name: 'link/new', type: '5' }],
    [linkTo('../outside'), { name: 'link/new', type: '2', target: 'x' }],
  ]) {
    const into = `into-${Math.random()}`;
    await assert.rejects(
      extract(guest, crafted(entries), { into, createParents: true }),
      withErrno('EXDEV'),
      JSON.stringify(entries),
    );
  }
  // A file over a symlink replaces it, and does not write through it.
  await extract(guest, crafted([linkTo('../outside/kept'), file('link')]), {
    into: 'replaced',
    createParents: true,
  });
  assert.ok((await lstat(at('replaced/link'))).isFile());
  // A symlink that stays below is gone through.
  await extract(guest, crafted([{ name: 'd', type: '5' }, linkTo('d'), file('link/file')]), {
    into: 'below',
    createParents: true,
  });
  assert.equal(await readFile(at('below/d/file'), 'utf8'), 'escaped');
  assert.deepEqual(await readdir(at('outside')), ['kept']);
  assert.equal(await readFile(at('outside/kept'), 'utf8'), 'kept');
  assert.equal((await stat(at('outside/kept'))).nlink, 1);
});

test('what stands there is replaced, but no directory by anything else', options, async () => {
  await using guest = await RealGuest.start();
  const at = (name: string): string => join(guest.directory, name);
  await mkdir(at('into/d'), { recursive: true });
  await chmod(at('into'), 0o1777);
  await writeFile(at('into/file'), 'old');
  await writeFile(at('into/becomes'), 'old');
  const entries = [
    { name: '.', type: '5', mode: 0o700 },
    { name: 'd', type: '5', mode: 0o700 },
    { name: './file', data: 'new', mode: 0o4755 },
    { name: 'becomes/in', data: 'x' },
  ];
  await assert.rejects(extract(guest, crafted(entries), { into: 'into' }), withErrno('ENOTDIR'));
  const made = [...entries.slice(0, 3), { name: 'becomes', type: '5' }, ...entries.slice(3)];
  await extract(guest, crafted(made), { into: 'into' });
  assert.equal(await readFile(at('into/file'), 'utf8'), 'new');
  assert.equal((await stat(at('into/file'))).mode & 0o7777, 0o755);
  assert.equal(await readFile(at('into/becomes/in'), 'utf8'), 'x');
  for (const name of ['into', 'into/d'])
    assert.equal((await stat(at(name))).mode & 0o777, name === 'into' ? 0o777 : 0o755);
  await assert.rejects(
    extract(guest, crafted([{ name: 'd', data: 'x' }]), { into: 'into' }),
    withErrno('EISDIR'),
  );
  await extract(
    guest,
    crafted([
      { name: 'becomes/soft', type: '2', target: 'in' },
      { name: 'hard', type: '1', target: 'file' },
    ]),
    { into: 'into' },
  );
  assert.equal(await readlink(at('into/becomes/soft')), 'in');
  assert.equal((await stat(at('into/hard'))).ino, (await stat(at('into/file'))).ino);
});

test('what is no tar, cut off, too much or unknown is refused with the reason', options, async () => {
  await using guest = await RealGuest.start();
  await mkdir(join(guest.directory, 'into'));
  const tar = crafted([
    { name: 'a', data: 'x'.repeat(2_000) },
    { name: 'b', data: 'y' },
  ]);
  await assert.rejects(extract(guest, Buffer.alloc(600, 'x'), { into: 'into' }), withErrno('EBADMSG'));
  await assert.rejects(extract(guest, tar.subarray(0, 1_000), { into: 'into' }), withErrno('EBADMSG'));
  await assert.rejects(extract(guest, tar, { into: 'into', entriesMax: 1 }), withErrno('EFBIG'));
  await assert.rejects(extract(guest, tar, { into: 'into', bytesMax: 2_000 }), withErrno('EFBIG'));
  await assert.rejects(
    extract(guest, crafted([{ name: 'dev', type: '3' }]), { into: 'into' }),
    withErrno('EOPNOTSUPP'),
  );
  await assert.rejects(extract(guest, tar, { into: 'missing' }), withErrno('ENOENT'));
  assert.deepEqual(await extract(guest, Buffer.alloc(0), { into: 'into' }), { entries: 0, bytes: 0 });
  assert.deepEqual(await extract(guest, Buffer.alloc(10_240), { into: 'into' }), { entries: 0, bytes: 0 });
  assert.deepEqual(
    (await readdir(join(guest.directory, 'into'))).filter((name) => name.startsWith('.')),
    [],
  );
});

test('owners and set-id bits are the archive’s only where that is asked for', asRoot, async () => {
  await using guest = await RealGuest.start();
  const tar = crafted([
    { name: 'd', type: '5', uid: 12_345, mode: 0o2755 },
    { name: 'd/file', data: 'x', uid: 12_345, mode: 0o4755 },
  ]);
  const seen = async (into: string, extraction: Extraction): Promise<string[]> => {
    await extract(guest, tar, { into, createParents: true, ...extraction });
    const stats = await Promise.all(['d', 'd/file'].map((name) => stat(join(guest.directory, into, name))));
    return stats.map(({ uid, mode }) => `${uid} ${(mode & 0o7777).toString(8)}`);
  };
  assert.deepEqual(await seen('own', {}), ['0 755', '0 755']);
  assert.deepEqual(await seen('kept', { owner: 'keep' }), ['12345 2755', '12345 4755']);
  assert.deepEqual(await seen('given', { owner: { uid: 54_321 } }), ['54321 755', '54321 755']);
});
