/** Commands one after another over one connection to a real PID 1: that it is used again, that it ends, and that losing it runs nothing twice. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { test } from 'node:test';
import { encodeFields } from '@squash/contract/guest/codec';
import { GuestClient } from './client.ts';
import { FrameConnection } from './frame-connection.ts';
import { drain, guestIsMissing, RealGuest, specOf } from '../../../tests/support/real-guest.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const options = { skip: guestIsMissing };

function clientOf(guest: RealGuest): { readonly client: GuestClient; readonly made: Duplex[] } {
  const made: Duplex[] = [];
  const connect = async (): Promise<Duplex> => {
    const socket = await guest.connect();
    made.push(socket);
    return socket;
  };
  return { client: new GuestClient({ connect }), made };
}

/** Until PID 1 has said that it takes another request, which it says once. */
async function isOffered(client: GuestClient, made: readonly Duplex[]): Promise<void> {
  const before = made.length;
  await waitFor('a connection is used again', async () => {
    const count = made.length;
    await drain(await client.exec(specOf(['true'])));
    return made.length === count;
  });
  assert.ok(made.length <= before + 2);
}

test('commands one after another have one connection, which ends when none comes', options, async () => {
  await using guest = await RealGuest.start();
  const { client, made } = clientOf(guest);
  await isOffered(client, made);
  const count = made.length;
  for (const text of ['one', 'two', 'three']) {
    assert.equal((await drain(await client.exec(specOf(['echo', text])))).stdout, `${text}\n`);
  }
  const fed = await client.exec(specOf(['cat'], { stdin: 'pipe' }));
  await fed.writeStdin(Buffer.from('fed'));
  fed.endStdin();
  assert.equal((await drain(fed)).stdout, 'fed');
  assert.equal(made.length, count);
  await waitFor('the last one ends', () => made.every((socket) => socket.destroyed));
});

test('a program that is not there leaves the next command its own connection', options, async () => {
  await using guest = await RealGuest.start();
  const { client, made } = clientOf(guest);
  await isOffered(client, made);
  await assert.rejects(client.exec(specOf(['/no/such/program'])), { code: 'exec_failed' });
  assert.equal((await drain(await client.exec(specOf(['echo', 'there'])))).stdout, 'there\n');
});

test('commands at once have a connection each', options, async () => {
  await using guest = await RealGuest.start();
  const { client, made } = clientOf(guest);
  await isOffered(client, made);
  const texts = Array.from({ length: 20 }, (_, i) => `${i}`);
  const ran = await Promise.all(
    texts.map(async (text) => await drain(await client.exec(specOf(['echo', text])))),
  );
  assert.deepEqual(
    ran.map(({ stdout }) => stdout.trim()),
    texts,
  );
});

test('a command whose kept connection is lost behind its request runs once', options, async () => {
  await using guest = await RealGuest.start();
  const { client, made } = clientOf(guest);
  await isOffered(client, made);
  const kept = made.at(-1);
  assert.ok(kept !== undefined);
  const write = kept.write.bind(kept) as (bytes: Uint8Array, done: () => void) => boolean;
  Object.assign(kept, { write: (bytes: Uint8Array) => write(bytes, () => kept.destroy()) });
  const file = join(guest.directory, 'runs');
  const ran = await drain(await client.exec(specOf(['sh', '-c', `echo run >> ${file}; echo told`])));
  assert.equal(ran.stdout, 'told\n');
  assert.equal(await readFile(file, 'utf8'), 'run\n');
});

test('a kept connection that ended before the request is noticed', options, async () => {
  await using guest = await RealGuest.start();
  const { client, made } = clientOf(guest);
  await isOffered(client, made);
  made.at(-1)?.destroy();
  assert.equal((await drain(await client.exec(specOf(['echo', 'again'])))).stdout, 'again\n');
});

const request = (id: string): Uint8Array =>
  encodeFields('exec', [
    ['execId', id],
    ['arg', '/bin/true'],
    ['cwd', '/'],
    ['uid', process.getuid?.() ?? 0],
    ['gid', process.getgid?.() ?? 0],
    ['stdinMode', 0],
    ['openFilesMax', 1024],
  ]);

async function typesUntil(connection: FrameConnection, last: string): Promise<readonly string[]> {
  const types: string[] = [];
  while (types.at(-1) !== last) types.push((await connection.next(5_000)).type);
  return types;
}

test(
  'the next request may come with the release, in any pieces, and nothing behind it',
  options,
  async () => {
    await using guest = await RealGuest.start();
    const release = encodeFields('release', []);
    const socket = await guest.connect();
    using connection = new FrameConnection(socket);
    connection.post(request('first'));
    assert.deepEqual(await typesUntil(connection, 'exit'), ['started', 'exit']);
    socket.write(Buffer.concat([release, request('second')]));
    assert.deepEqual(await typesUntil(connection, 'exit'), ['ok', 'started', 'exit']);
    const third = Buffer.concat([release, request('third')]);
    for (const byte of third) {
      socket.write(Buffer.from([byte]));
      await guest.client.info();
    }
    assert.deepEqual(await typesUntil(connection, 'exit'), ['started', 'exit']);
    socket.write(Buffer.concat([release, request('fourth'), Buffer.from([0])]));
    assert.deepEqual(await typesUntil(connection, 'error'), ['error']);
    socket.end();
    if (!socket.destroyed) await once(socket, 'close');
    assert.deepEqual(await guest.client.list(), []);
  },
);
