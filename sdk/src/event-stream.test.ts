/** Server-sent events, however the bytes are cut. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { readEvents, type ServerEvent } from './event-stream.ts';

async function read(parts: readonly Buffer[]): Promise<ServerEvent[]> {
  const body = async function* () {
    await Promise.resolve();
    yield* parts;
  };
  const events: ServerEvent[] = [];
  for await (const event of readEvents(body())) events.push(event);
  return events;
}

describe('readEvents', () => {
  it('reads names, ids and data, joins data lines and skips comments and unfinished events', async () => {
    const text =
      ': hello\n\nid: 1\ndata: a\n\nevent: stderr\r\nid: 2\r\ndata:b\r\ndata: c\r\n\r\ndata\n\nevent: done\ndata: {}\n\ndata: lost';
    assert.deepEqual(await read([Buffer.from(text)]), [
      { name: 'message', id: '1', data: 'a' },
      { name: 'stderr', id: '2', data: 'b\nc' },
      { name: 'message', id: undefined, data: '' },
      { name: 'done', id: undefined, data: '{}' },
    ]);
  });

  it('does not depend on where the bytes are cut', async () => {
    const whole = Buffer.from('id: 1\ndata: grün 漢字\n\nevent: stderr\ndata: x\n\n');
    const expected = await read([whole]);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(whole.length)), async (cuts) => {
        const places = [0, ...cuts.toSorted((a, b) => a - b), whole.length];
        const parts = places.slice(1).map((end, index) => whole.subarray(places[index], end));
        assert.deepEqual(await read(parts), expected);
      }),
    );
  });

  it('refuses a line without an end', async () => {
    await assert.rejects(read(Array.from({ length: 140 }, () => Buffer.alloc(65_536, 120))), /too long/);
  });
});
