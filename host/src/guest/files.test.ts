/** Files and ports through a real PID 1. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, lstat, mkdir, readFile, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { encodeFields } from '@squash/contract/guest/codec';
import { guestLimits } from '@squash/contract/guest/frames';
import { FrameConnection } from './frame-connection.ts';
import { GuestErrno } from './guest-error.ts';
import { drain, guestIsMissing, RealGuest, specOf } from '../../../tests/support/real-guest.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const options = { skip: guestIsMissing };
const asRoot = { skip: guestIsMissing || (process.getuid?.() === 0 ? false : 'needs root') };

const withErrno = (errno: string) => (error: unknown) =>
  error instanceof AppError &&
  error.code === 'file_failed' &&
  error.cause instanceof GuestErrno &&
  error.cause.code === errno;

async function* pieces(...chunks: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

test('files are written and read byte for byte, whole and in ranges', options, async () => {
  await using guest = await RealGuest.start();
  const path = join(guest.directory, 'file');
  const data = randomBytes(1_000_003);
  await guest.client.files.write(path, pieces(data.subarray(0, 5), data.subarray(5, 5), data.subarray(5)));
  assert.ok((await readFile(path)).equals(data));
  assert.ok((await collect(guest.client.files.read(path))).equals(data));
  const range = await collect(guest.client.files.read(path, { offset: 70_000, length: 70_000 }));
  assert.ok(range.equals(data.subarray(70_000, 140_000)));
  assert.equal((await collect(guest.client.files.read(path, { offset: 2_000_000, length: 5 }))).length, 0);
  assert.equal((await collect(guest.client.files.read(path, { offset: 1_000_000, length: 9 }))).length, 3);
  await guest.client.files.write(path, pieces());
  assert.equal((await readFile(path)).length, 0);
  assert.match(
    (await collect(guest.client.files.read('/proc/self/status'))).toString(),
    /Name:\tsquash-init/,
  );
});

test('a written file gets the mode asked for and its parents', options, async () => {
  await using guest = await RealGuest.start();
  const path = join(guest.directory, 'a/b/c/file');
  await assert.rejects(guest.client.files.write(path, pieces()), withErrno('ENOENT'));
  await guest.client.files.write(path, pieces(Buffer.from('x')), { createParents: true, mode: 0o4751 });
  assert.equal((await stat(path)).mode & 0o7777, 0o4751);
  await guest.client.files.write(path, pieces(Buffer.from('y')), { mode: 0o600 });
  assert.equal((await stat(path)).mode & 0o7777, 0o600);
  assert.equal((await stat(join(guest.directory, 'a/b'))).mode & 0o7777, 0o755);
});

test('a write that is refused stops fetching its data', options, async () => {
  await using guest = await RealGuest.start();
  let fetched = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) {
      fetched += 1;
      yield Buffer.alloc(65_536);
    }
  }
  await assert.rejects(guest.client.files.write('/no/such/directory/file', endless()), withErrno('ENOENT'));
  await assert.rejects(guest.client.files.write('/dev/full', endless()), withErrno('EINVAL'));
  await assert.rejects(guest.client.files.write(guest.directory, endless()), withErrno('EISDIR'));
  assert.ok(fetched < 200);
});

test('what is no regular file is refused without waiting for it', options, async () => {
  await using guest = await RealGuest.start();
  const fifo = join(guest.directory, 'fifo');
  await drain(await guest.client.exec(specOf(['mkfifo', fifo])));
  await assert.rejects(collect(guest.client.files.read(fifo)), withErrno('EINVAL'));
  await assert.rejects(collect(guest.client.files.read('/dev/zero')), withErrno('EINVAL'));
  await assert.rejects(guest.client.files.write(fifo, pieces()), withErrno('ENXIO'));
  assert.equal((await guest.client.files.stat(fifo)).type, 'fifo');
});

test('paths that are not absolute, hold a NUL or are too long are refused', options, async () => {
  await using guest = await RealGuest.start();
  for (const path of ['', 'relative', '/a\0b', `/${'x'.repeat(4096)}`]) {
    await assert.rejects(guest.client.files.stat(path), { code: 'guest_failed' });
  }
});

test('stat tells what is there', options, async () => {
  await using guest = await RealGuest.start();
  const file = join(guest.directory, 'file');
  const link = join(guest.directory, 'link');
  await writeFile(file, 'hello', { mode: 0o640 });
  await symlink('file', link);
  const told = await guest.client.files.stat(file);
  const real = await stat(file);
  assert.deepEqual(
    { ...told },
    {
      type: 'file',
      size: 5,
      mode: 0o640,
      uid: real.uid,
      gid: real.gid,
      mtimeMs: Math.floor(real.mtimeMs),
      target: undefined,
      inode: real.ino,
      changedUs: Number((await stat(file, { bigint: true })).ctimeNs / 1000n),
    },
  );
  assert.equal((await guest.client.files.stat(link)).target?.toString(), 'file');
  assert.equal((await guest.client.files.stat(link, { followLinks: true })).type, 'file');
  assert.equal((await guest.client.files.stat('/dev/null')).type, 'device');
  assert.equal((await guest.client.files.stat('/')).type, 'directory');
  await assert.rejects(guest.client.files.stat(join(guest.directory, 'nothing')), withErrno('ENOENT'));
  await truncate(file, 5_000_000_000);
  assert.equal((await guest.client.files.stat(file)).size, 5_000_000_000);
});

test('a directory is listed with names of any bytes', options, async () => {
  await using guest = await RealGuest.start();
  const directory = join(guest.directory, 'names');
  await mkdir(directory);
  const names = ['plain', 'new\nline', ' space', 'quote"\'', 'ü'].map((name) => Buffer.from(name));
  names.push(Buffer.from([0xff, 0xfe, 0x80]));
  for (const name of names)
    await guest.client.files.write(Buffer.concat([Buffer.from(`${directory}/`), name]), pieces(name));
  const found = new Map<string, number>();
  for await (const { path: name, stat: told } of guest.client.files.list(directory))
    found.set(name.toString('hex'), told.size);
  assert.deepEqual(found, new Map([...found.keys()].map((hex) => [hex, hex.length / 2])));
  assert.deepEqual([...found.keys()].sort(), names.map((name) => name.toString('hex')).sort());
  await assert.rejects(collectNames(guest, join(directory, 'plain')), withErrno('ENOTDIR'));
});

async function collectNames(guest: RealGuest, path: string): Promise<number> {
  let count = 0;
  for await (const { path: name } of guest.client.files.list(path)) count += name.length > 0 ? 1 : 0;
  return count;
}

test(
  'a large directory is listed whole, also by a reader that pauses, and can be left',
  options,
  async () => {
    await using guest = await RealGuest.start();
    await drain(
      await guest.client.exec(
        specOf(['sh', '-c', 'mkdir many; cd many; seq -f "entry-number-%05g" 5000 | xargs touch'], {
          cwd: guest.directory,
        }),
      ),
    );
    const path = join(guest.directory, 'many');
    assert.equal(await collectNames(guest, path), 5000);
    for await (const { path: name } of guest.client.files.list(path)) {
      assert.ok(name.length > 0);
      break;
    }
    await waitFor('the worker of the listing is gone', async () => (await childrenOf(guest)).length === 0);
  },
);

test('directories are made and things moved', options, async () => {
  await using guest = await RealGuest.start();
  const path = join(guest.directory, 'd');
  await guest.client.files.makeDirectory(path, { mode: 0o1777 });
  assert.equal((await stat(path)).mode & 0o7777, 0o1777);
  await guest.client.files.makeDirectory(`${path}/group//`, { mode: 0o2750 });
  assert.equal((await stat(join(path, 'group'))).mode & 0o7777, 0o2750);
  // Below a directory that hands its group on, which the mode asked for does not.
  await guest.client.files.makeDirectory(join(path, 'group/plain'), { mode: 0o705 });
  assert.equal((await stat(join(path, 'group/plain'))).mode & 0o7777, 0o705);
  await assert.rejects(guest.client.files.makeDirectory('/', { mode: 0o700 }), withErrno('EEXIST'));
  await assert.rejects(guest.client.files.makeDirectory(path), withErrno('EEXIST'));
  await guest.client.files.makeDirectory(path, { createParents: true });
  await guest.client.files.makeDirectory(join(path, 'e/f/g'), { createParents: true });
  await writeFile(join(path, 'file'), '');
  await assert.rejects(
    guest.client.files.makeDirectory(join(path, 'file'), { createParents: true }),
    withErrno('EEXIST'),
  );
  await assert.rejects(
    guest.client.files.makeDirectory(join(path, 'file/x'), { createParents: true }),
    withErrno('ENOTDIR'),
  );
  await guest.client.files.move(join(path, 'e'), join(path, 'moved'));
  assert.ok((await stat(join(path, 'moved/f/g'))).isDirectory());
  await assert.rejects(guest.client.files.move(join(path, 'e'), join(path, 'x')), withErrno('ENOENT'));
});

test('removing does not follow symlinks and needs recursive for what is not empty', options, async () => {
  await using guest = await RealGuest.start();
  const tree = join(guest.directory, 'tree');
  const outside = join(guest.directory, 'outside');
  await mkdir(join(tree, 'a/b'), { recursive: true });
  await mkdir(outside);
  await writeFile(join(outside, 'kept'), '');
  await symlink(outside, join(tree, 'a/link'));
  await symlink(outside, join(guest.directory, 'link'));
  await writeFile(join(tree, 'a/b/file'), '', { mode: 0o400 });
  await chmod(join(tree, 'a/b'), 0o700);
  await assert.rejects(guest.client.files.remove(tree), withErrno('ENOTEMPTY'));
  await guest.client.files.remove(tree, { recursive: true });
  await assert.rejects(lstat(tree), { code: 'ENOENT' });
  await guest.client.files.remove(join(guest.directory, 'link'), { recursive: true });
  assert.ok((await stat(join(outside, 'kept'))).isFile());
  await assert.rejects(guest.client.files.remove(tree, { recursive: true }), withErrno('ENOENT'));
});

test('removing copes with deep, wide and deep-and-wide trees', options, async () => {
  await using guest = await RealGuest.start({ openFilesMax: 64 });
  const script = `
    import os
    for shape in ("deep", "wide", "both"):
        os.mkdir(shape)
    fd = os.open("deep", os.O_RDONLY)
    for level in range(6000):
        os.mkdir("d" * 200, dir_fd=fd)
        if level % 500 == 0: os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd); fd = below
    for i in range(3000): os.mkdir("wide/%d" % i); open("wide/%d/f" % i, "w").close()
    fd = os.open("both", os.O_RDONLY)
    for level in range(100):
        for i in range(20): os.mkdir(str(i), dir_fd=fd); os.mkdir(str(i) + "/x", dir_fd=fd)
        below = os.open("7", os.O_RDONLY, dir_fd=fd)
        os.close(fd); fd = below
  `;
  const lines = script.split('\n').map((line) => line.slice(4));
  const made = await drain(
    await guest.client.exec(specOf(['python3', '-c', lines.join('\n')], { cwd: guest.directory })),
  );
  assert.equal(made.stderr, '');
  for (const shape of ['deep', 'wide', 'both']) {
    await guest.client.files.remove(join(guest.directory, shape), { recursive: true });
    await assert.rejects(lstat(join(guest.directory, shape)), { code: 'ENOENT' });
  }
});

test('a file operation as a user has that user’s rights and ownership', asRoot, async () => {
  await using guest = await RealGuest.start();
  await chmod(guest.directory, 0o755);
  const home = join(guest.directory, 'home');
  await guest.client.files.makeDirectory(home, { mode: 0o777 });
  const user = [
    ['uid', 12_345],
    ['gid', 23_456],
  ] as const;
  const ask = async (path: string): Promise<string> => {
    using connection = new FrameConnection(await guest.connect());
    connection.post(encodeFields('fileMakeDirectory', [['path', path], ...user]));
    return (await connection.next(10_000)).type;
  };
  assert.equal(await ask(join(home, 'mine')), 'ok');
  assert.deepEqual(
    [(await stat(join(home, 'mine'))).uid, (await stat(join(home, 'mine'))).gid],
    [12_345, 23_456],
  );
  assert.equal(await ask(join(guest.directory, 'refused')), 'error');
});

/** Reads of a file that has no end for a client that does not read on: their workers wait. */
async function stalledReads(guest: RealGuest, count: number): Promise<AsyncGenerator<Buffer>[]> {
  const path = join(guest.directory, 'large');
  await writeFile(path, '');
  await truncate(path, 1_000_000_000);
  const reads = Array.from({ length: count }, () => guest.client.files.read(path));
  const first = await Promise.all(reads.map((read) => read.next()));
  assert.ok(first.every(({ done }) => done === false));
  return reads;
}

const endAll = (reads: readonly AsyncGenerator<Buffer>[]): Promise<unknown> =>
  Promise.all(reads.map((read) => read.return(undefined)));

test('slow file operations do not delay commands, and their number is bounded', options, async () => {
  await using guest = await RealGuest.start();
  const reads = await stalledReads(guest, 64);
  assert.equal((await childrenOf(guest)).length, 64);
  await assert.rejects(guest.client.files.stat('/'), { code: 'exec_limit' });
  assert.equal((await drain(await guest.client.exec(specOf(['echo', 'x'])))).stdout, 'x\n');
  await endAll(reads);
  await waitFor('a worker is free', async () => (await childrenOf(guest)).length === 0);
  await guest.client.files.stat('/');
});

async function childrenOf(guest: RealGuest): Promise<string[]> {
  const text = await readFile(`/proc/${guest.pid}/task/${guest.pid}/children`, 'utf8');
  return text.split(' ').filter((pid) => pid !== '');
}

async function serve(
  host: string,
  onConnection: (socket: Socket) => void,
): Promise<Server & AsyncDisposable> {
  const server = createServer({ allowHalfOpen: true }, onConnection);
  server.listen(0, host);
  await once(server, 'listening');
  return server;
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

test('dial joins a port with bytes both ways and half-close', options, async () => {
  await using guest = await RealGuest.start();
  for (const host of ['127.0.0.1', '::1']) {
    await using server = await serve(host, (socket) => {
      const chunks: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => chunks.push(chunk));
      socket.on('end', () => socket.end(Buffer.concat(chunks).reverse())); // Only after the client's end.
    });
    const stream = await guest.client.dial(portOf(server));
    const sent = randomBytes(2_000_000);
    stream.end(sent);
    assert.ok((await collect(stream as AsyncIterable<Buffer>)).equals(Buffer.from(sent).reverse()));
  }
});

test('dial loses nothing of a server that speaks first and closes at once', options, async () => {
  await using guest = await RealGuest.start();
  await using server = await serve('127.0.0.1', (socket) => socket.end('greeting'));
  for (let i = 0; i < 20; i++) {
    const stream = await guest.client.dial(portOf(server));
    assert.equal((await collect(stream as AsyncIterable<Buffer>)).toString(), 'greeting');
    stream.destroy();
  }
});

test('dial to a port that nobody serves is refused', options, async () => {
  await using guest = await RealGuest.start();
  await assert.rejects(
    guest.client.dial(1),
    (error: unknown) =>
      error instanceof AppError && error.code === 'port_unreachable' && /ECONNREFUSED/.test(error.message),
  );
  await assert.rejects(guest.client.dial(65_536), { code: 'guest_failed' });
});

test('a dialled port that is not read holds back its sender', options, async () => {
  await using guest = await RealGuest.start();
  let sent = 0;
  await using server = await serve('127.0.0.1', (socket) => {
    const more = (): void => {
      for (let room = true; room; sent += 65_536) room = socket.write(Buffer.alloc(65_536));
    };
    socket.on('drain', more).on('error', () => socket.destroy());
    more();
  });
  const stream = await guest.client.dial(portOf(server));
  stream.pause();
  let last = -1;
  let unchanged = 0;
  await waitFor('the sender is stalled', () => {
    unchanged = last === sent ? unchanged + 1 : 0;
    last = sent;
    return unchanged === 20;
  });
  assert.ok(sent < 20_000_000, `${sent} bytes were taken`);
  stream.destroy();
});

test('the slots of clients that hung up are free for who comes right behind them', options, async () => {
  await using guest = await RealGuest.start();
  for (let round = 0; round < 5; round += 1) {
    const reads = await stalledReads(guest, guestLimits.fileWorkersMax);
    await assert.rejects(guest.client.files.stat(guest.directory), { code: 'exec_limit' });
    await endAll(reads);
    assert.equal((await guest.client.files.stat(guest.directory)).type, 'directory');
  }
});
