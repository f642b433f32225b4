/** A migration stream put together by hand; the real ones are in tests/e2e/microvm-memory.test.ts, where what is kept of them is loaded again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryFirst } from './qemu-stream.ts';

const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
};
const named = (text: string): Buffer => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);
const id = Buffer.from([0, 0, 0, 2]);
const end = [u64(0x10), Buffer.from([0x7e]), id];
const start = [
  Buffer.from('QEVM and more'),
  Buffer.from([1]),
  id,
  named('ram'),
  u64(4),
  u64(0x9000 | 4),
  named('mem0'),
  u64(0x8000),
  named('rom'),
  u64(0x1000),
  ...end,
];
const part = (type: number): Buffer[] => [Buffer.from([type]), id];
const page = (byte: number): Buffer => Buffer.alloc(4096, byte);
const command = Buffer.from([8, 0, 11, 0, 1, 9]);
const devices = Buffer.from('\u0004devices, of which this says nothing: \u0003ram');

const stream = Buffer.concat([
  ...start,
  ...part(2),
  u64(0x0000 | 2),
  named('mem0'),
  Buffer.from([0]),
  u64(0x1000 | 8 | 32),
  page(1),
  u64(0x2000 | 8 | 32),
  page(2),
  ...end,
  command,
  ...part(3),
  u64(0x0000 | 2),
  named('rom'),
  Buffer.from([0]),
  u64(0x5000 | 8),
  named('mem0'),
  page(3),
  u64(0x0000 | 8),
  named('rom'),
  page(4),
  ...end,
  devices,
]);
const extent = (at: number, ...pages: readonly Buffer[]): Buffer[] => [
  ...[at, 4096 * pages.length].map((value) => u64(value).reverse()),
  ...pages,
];
const kept = Buffer.concat([
  u64(0x8000).reverse(),
  ...extent(0x1000, page(1), page(2)),
  ...extent(0x5000, page(3)),
  ...extent(0x8000),
  ...start,
  ...part(2),
  ...end,
  command,
  ...part(3),
  // What has a content before it is loaded is kept, and its block named by the first record that is left.
  u64(0x0000 | 2),
  named('rom'),
  Buffer.from([0]),
  u64(0x0000 | 8),
  named('rom'),
  page(4),
  ...end,
  devices,
]);

async function read(bytes: Buffer, pieceBytes: number): Promise<Buffer> {
  const pieces = (function* () {
    for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
  })();
  const out: Buffer[] = [];
  for await (const piece of memoryFirst(
    (async function* () {
      yield* pieces;
    })(),
  ))
    out.push(piece);
  return Buffer.concat(out);
}

test('the pages of the memory come first, without the empty ones, and the rest of the stream behind them, however it comes', async () => {
  for (const pieceBytes of [1, 7, 4096, 5000, stream.length])
    assert.ok((await read(stream, pieceBytes)).equals(kept), `pieces of ${pieceBytes}`);
});

test('a stream that ends early, or is not understood, is refused', async () => {
  for (const length of [0, 40, 300, stream.length - devices.length - 1])
    await assert.rejects(read(stream.subarray(0, length), 64), { code: 'guest_failed' });
  for (const strange of [
    Buffer.concat([...start, ...part(2), u64(0x1000 | 0x200)]),
    Buffer.concat([...start, ...part(4)]),
    Buffer.concat([...start, Buffer.from([2, 0, 0, 0, 9])]),
    Buffer.concat([...start, ...part(2), u64(0x8000 | 8), named('mem0'), page(1)]),
    Buffer.concat([
      ...start,
      ...part(2),
      u64(0x2000 | 8),
      named('mem0'),
      page(1),
      u64(0x1000 | 8 | 32),
      page(1),
    ]),
    Buffer.alloc(100_000),
  ])
    await assert.rejects(read(strange, 4096), { code: 'guest_failed' });
});

test('what is behind the memory may come in any size, and a list without an end is not waited for', async () => {
  const much = Buffer.alloc(3_000_000, 7);
  const found = await read(Buffer.concat([stream, much]), 65_536);
  assert.ok(found.equals(Buffer.concat([kept, much])));
  let given = 0;
  async function* endless(): AsyncGenerator<Buffer> {
    yield Buffer.concat([...start.slice(0, 5), u64(0x9000 | 4)]);
    for (
      const block = Buffer.concat([named('none'), u64(0)]);
      given < 10_000_000;
      given += 1_000 * block.length
    )
      yield Buffer.concat(Array.from({ length: 1_000 }, () => block));
  }
  await assert.rejects(
    async () => {
      for await (const _piece of memoryFirst(endless()));
    },
    { code: 'guest_failed' },
  );
  assert.ok(given < 1_000_000);
});
