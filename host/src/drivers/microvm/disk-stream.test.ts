/** What squash-vmm tells of a file, true and not. Real ones are in tests/e2e/firecracker-memory.test.ts. */
import assert from 'node:assert/strict';
import { type FileHandle, mkdtemp, open, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ownedPrefix } from '../../../../tests/support/owned-directory.ts';
import { unpackDisk } from './disk-stream.ts';

const bounds = { bytesMax: 2 ** 24, hasRoom: () => true, giveUp: AbortSignal.timeout(60_000) };
let directory: string;
let made = 0;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), ownedPrefix('disk-stream')));
});
after(async () => await rm(directory, { recursive: true }));

function numbers(...values: readonly (number | bigint)[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [at, value] of values.entries()) bytes.writeBigUInt64LE(BigInt(value), 8 * at);
  return bytes;
}

async function* inPieces(bytes: Buffer, length: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += length)
    yield await Promise.resolve(bytes.subarray(at, at + length));
}

async function withFile<T>(work: (file: FileHandle, path: string) => Promise<T>): Promise<T> {
  const path = join(directory, `file-${(made += 1)}`);
  const file = await open(path, 'wx+');
  try {
    return await work(file, path);
  } finally {
    await file.close();
  }
}

test('it is what it was, behind what is there, and its empty pages take no room', async () => {
  const size = 8 * 2 ** 20 + 100;
  const one = Buffer.alloc(1_048_576);
  one.fill('a', 0, 5000);
  one.fill('b', 700_000, 700_001);
  const last = Buffer.from('the end'.padEnd(100, '.'));
  const stream = Buffer.concat([
    numbers(size, 4096, one.length),
    one,
    numbers(size - last.length, last.length),
    last,
    numbers(size, 0),
  ]);
  const whole = Buffer.alloc(size);
  one.copy(whole, 4096);
  last.copy(whole, size - last.length);
  for (const [length, at] of [
    [stream.length, 0],
    [4095, 0],
    [65_536, 12],
  ] as const) {
    await withFile(async (file, path) => {
      await file.write('before it...'.slice(0, at));
      assert.equal(await unpackDisk(inPieces(stream, length), { file, at }, bounds), size);
      assert.ok((await readFile(path)).subarray(at).equals(whole));
      assert.equal((await readFile(path)).subarray(0, at).toString(), 'before it...'.slice(0, at));
      assert.ok((await stat(path)).blocks * 512 < 100_000);
    });
  }
});

test('what is no such stream is refused, and writes nothing beyond its place', async () => {
  const page = Buffer.alloc(4096, 'x');
  const lies: readonly (readonly [Buffer, RegExp])[] = [
    [numbers(bounds.bytesMax + 1), /more than 16777216 bytes/],
    [numbers(8192, 8192, 1), /not where one can be/],
    [numbers(8192, 4096, 4097), /not where one can be/],
    [numbers(8192, 0, 2n ** 63n), /too large/],
    [numbers(2n ** 64n - 1n), /too large/],
    [Buffer.concat([numbers(8192, 4096, 4096), page, numbers(0, 4096)]), /not where one can be/],
    [Buffer.concat([numbers(8192, 0, 4096), page]), /ends in the middle/],
    [Buffer.concat([numbers(8192, 0, 4096), page.subarray(1)]), /ends in the middle/],
    [Buffer.from('SSH'), /ends in the middle/],
  ];
  for (const [stream, message] of lies) {
    await withFile(async (file, path) => {
      const unpacked = unpackDisk(inPieces(stream, 1000), { file, at: 0 }, bounds);
      await assert.rejects(unpacked, { code: 'guest_failed', message });
      assert.ok((await stat(path)).size <= 8192);
    });
  }
  await withFile(async (file) => {
    const full = { ...bounds, hasRoom: () => false };
    await assert.rejects(unpackDisk(inPieces(numbers(1), 8), { file, at: 0 }, full), { code: 'disk_full' });
  });
});
