/** A data directory without room: a clear error, nothing else harmed, and everything goes on when there is room. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecRecord } from '@squash/contract/exec';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { dockerArchive, tarOf } from '../support/image-archive.ts';
import { needsRoot, smallDisk } from '../support/small-disk.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, lines, output, sandboxesPath } from './model.ts';

/** Room for what a daemon has, and above it for the 64 MiB that an image tool that takes its time must leave free. */
const diskBytes = (isOnVms ? 640 : 192) * 1_048_576;

test('a full disk is said so, loses nothing, and is forgotten when it has room again', {
  skip: needsRoot,
}, async () => {
  using disk = smallDisk(diskBytes);
  await using daemon = await TestDaemon.start({ parent: disk.path, env: { SQUASH_UPPER: 'directory' } });
  await daemon.call('POST', sandboxesPath, { id: 'one', memory_mb: 64 });
  await output(daemon, 'one', 'echo kept > /file');
  disk.fill();
  const codes = new Set<string>();
  for (let count = 0; count < 40; count += 1) {
    const answer = await daemon.request('POST', boxPath('one', '/exec'), { cmd: 'head -c 300000 /dev/zero' });
    // What still fits into the database's own free pages is answered as ever.
    if (answer.status !== 200) codes.add(`${answer.status} ${answer.json.code}`);
  }
  const create = await daemon.request('POST', sandboxesPath, { id: 'two', memory_mb: 64 });
  codes.add(`${create.status} ${create.json.code}`);
  const snapshot = await daemon.request('POST', boxPath('one', '/snapshot'), { label: 'full' });
  codes.add(`${snapshot.status} ${snapshot.json.code}`);
  assert.deepEqual([...codes], ['507 disk_full']);
  const list = (await daemon.call('GET', sandboxesPath)) as SandboxInfo[];
  assert.deepEqual(
    list.map(({ id }) => id),
    ['one'],
  );
  disk.free();
  assert.equal(await output(daemon, 'one', 'cat /file'), 'kept\n');
  await daemon.call('POST', sandboxesPath, { id: 'two', memory_mb: 64 });
  await daemon.call('POST', boxPath('one', '/snapshot'), { label: 'full' });
  assert.deepEqual(await lines(daemon, 'two', 'echo fine'), ['fine']);
  const records = (await daemon.call('GET', boxPath('one', '/logs'))) as ExecRecord[];
  const numbers = records.map(({ seq }) => seq);
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => index + 1),
  );
});

test('a sandbox that time has paused goes on when it is used, also on a full disk', {
  skip: needsRoot,
}, async () => {
  using disk = smallDisk(diskBytes);
  await using daemon = await TestDaemon.start({ parent: disk.path, env: { SQUASH_UPPER: 'directory' } });
  const box = '/v1/sandboxes/one';
  await daemon.call('POST', sandboxesPath, { id: 'one', memory_mb: 64 });
  await output(daemon, 'one', 'echo kept > /file');
  await daemon.call('PATCH', box, { lifetime_s: 1, on_timeout: 'pause' });
  await waitFor('the pause', async () => (await daemon.call('GET', box)).state === 'paused');
  disk.fill();
  const read = await daemon.request('GET', `${box}/files?path=/file`);
  assert.deepEqual([read.status, read.text], [200, 'kept\n']);
});

/** On a connection of its own: it ends with an answer to what was not read to its end. */
async function refusal(url: string, body: Iterable<Buffer> | AsyncIterable<Buffer>): Promise<string> {
  const asked = request(url, { method: 'PUT', agent: false });
  asked.on('error', () => {
    // The answer came before all was sent.
  });
  Readable.from(body)
    .on('error', () => {})
    .pipe(asked);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return (JSON.parse(await text(answer)) as { readonly code: string }).code;
}

test('commands that the writable layer has no room for end with a reason of their own', {
  skip: isOnVms ? 'a microVM has a disk of its own, which says that it is full' : false,
}, async () => {
  // The only kind of upper whose limit is held by ending the writer.
  await using daemon = await TestDaemon.start({
    env: { SQUASH_UPPER: 'directory', SQUASH_UPPER_LIMIT_MB: '16' },
  });
  await daemon.call('POST', sandboxesPath, { id: 'small', memory_mb: 64 });
  const waiting = daemon.call('POST', boxPath('small', '/exec'), { cmd: 'echo . >/begun; sleep 1000' });
  // Many files: a single one is held by its own limit.
  const cmd =
    'until [ -e /begun ]; do :; done; i=0; while :; do head -c 1000000 /dev/zero >/$i; i=$((i+1)); done';
  const writing = await daemon.call('POST', boxPath('small', '/exec'), { cmd });
  for (const record of [writing, await waiting]) {
    assert.deepEqual([record.exit_code, record.reason], [137, 'upper_full']);
  }
  await daemon.call('POST', boxPath('small', '/exec'), { cmd: 'rm /[0-9]*' });
  const own = await daemon.call('POST', boxPath('small', '/exec'), { cmd: 'kill -9 $$' });
  assert.deepEqual([own.exit_code, own.reason], [137, 'signaled']);
});

test('a transfer that the sandbox has no room for is told by that reason', {
  skip: isOnVms ? 'a microVM has a disk of its own, which says that it is full' : false,
}, async () => {
  await using daemon = await TestDaemon.start({
    env: { SQUASH_UPPER: 'directory', SQUASH_UPPER_LIMIT_MB: '16' },
  });
  await daemon.call('POST', sandboxesPath, { id: 'small', memory_mb: 64 });
  const large = randomBytes(17 * 1_048_576);
  const archive = tarOf([{ name: 'large', data: large }]);
  // Where somebody looks in that very moment it is ended, and leaves what it had.
  for (const [query, body] of [
    ['files?path=/up/large&parents=true', large],
    ['files?path=/up/large&append=true', large],
    ['files/archive?path=/up', archive],
  ] as const)
    await waitFor(`nothing to be left of ${query}`, async () => {
      assert.equal(await refusal(`${daemon.url}/v1/sandboxes/small/${query}`, [body]), 'sandbox_full');
      const cmd = 'cd /up && rm -f large; ls -A; rm -f .squash-*';
      return (await daemon.call('POST', boxPath('small', '/exec'), { cmd })).stdout === '';
    });
  // Each file is small enough, and somebody looks in between.
  const tar = tarOf(Array.from({ length: 90 }, (_, at) => ({ name: `${at}`, data: randomBytes(1_000_000) })));
  const slowly = async function* (): AsyncGenerator<Buffer, void, void> {
    for (let at = 0; at < tar.length; at += 1_000_000) {
      yield tar.subarray(at, at + 1_000_000);
      await sleep(60);
    }
  };
  const url = `${daemon.url}/v1/sandboxes/small/files/archive?path=/up&parents=true`;
  assert.equal(await refusal(url, slowly()), 'sandbox_full');
});

test('an image that the disk has no room for is neither taken in nor made to leave, and nothing of it stays', {
  skip: needsRoot,
}, async () => {
  const megabyte = 1_048_576;
  using disk = smallDisk(320 * megabyte);
  await using daemon = await TestDaemon.start({ parent: disk.path, env: { SQUASH_UPPER: 'directory' } });
  const put = async (name: string): Promise<number> => {
    const body = dockerArchive({ layers: [tarOf([{ name, data: randomBytes(megabyte) }])] });
    return (await fetch(`${daemon.url}/v1/images?name=${name}:1`, { method: 'PUT', body })).status;
  };
  const leave = async (): Promise<readonly number[]> => {
    const { status } = await fetch(`${daemon.url}/v1/images/one:1/file`);
    const flat = await daemon.request('POST', '/v1/images/one:1/module', {
      module: '300-one',
      replace: true,
    });
    return [status, flat.status];
  };
  assert.equal(await put('one'), 200);
  const modules = readdirSync(join(daemon.dataDir, 'modules'));
  // Less than what the daemon leaves free while it takes an image in, and more than what its own files need.
  disk.take(200 * megabyte);
  assert.deepEqual([await put('two'), ...(await leave())], [507, 507, 507]);
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'modules')), modules);
  disk.free();
  assert.deepEqual([await put('two'), ...(await leave())], [200, 200, 200]);
});
