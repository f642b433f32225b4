/** Frames against a sender and a receiver of another implementation, wherever the stream is cut. */
import assert from 'node:assert/strict';
import type { Writable } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import * as ws from 'ws';
import { Matcher } from '../secrets/matcher.ts';
import { Replacer } from '../secrets/stream-filter.ts';
import { FrameError, FrameFilter } from './websocket-frames.ts';

/** The two ends that the package exports and its types leave out. */
const { Sender, Receiver } = ws as unknown as {
  readonly Sender: { frame(data: Buffer, options: object): Buffer[] };
  readonly Receiver: new (options: object) => Writable;
};

const matcher = new Matcher([{ bytes: Buffer.from('secret-value'), meaning: 'X' }]);

function replacing(): FrameFilter {
  return new FrameFilter(() => new Replacer(matcher, () => Buffer.from('-')));
}

/** Bytes of messages as `ws` writes them: each message in its fragments. */
function written(messages: readonly (readonly string[])[], mask: boolean): Buffer {
  const pieces: Buffer[] = [];
  for (const fragments of messages) {
    for (const [at, text] of fragments.entries()) {
      const fin = at === fragments.length - 1;
      const options = { fin, opcode: at === 0 ? 1 : 0, mask, readOnly: true, rsv1: false };
      pieces.push(...Sender.frame(Buffer.from(text), options).map((each) => Buffer.from(each)));
    }
  }
  return Buffer.concat(pieces);
}

function read(bytes: Buffer, isServer: boolean): string[] {
  const messages: string[] = [];
  const receiver = new Receiver({
    isServer,
    skipUTF8Validation: true,
    allowSynchronousEvents: true,
  } as never) as Writable;
  receiver.on('message', (data: Buffer) => messages.push(data.toString()));
  receiver.write(bytes);
  return messages;
}

test('messages arrive with what was to be replaced replaced, however they are cut and fragmented', () => {
  const fragment = fc
    .array(
      fc.oneof(fc.constantFrom('secret-value', 'secret-', 'value', 'x'), fc.string({ maxLength: 200 })),
      { maxLength: 4 },
    )
    .map((parts) => parts.join(''));
  const messages = fc.array(fc.array(fragment, { minLength: 1, maxLength: 4 }), {
    minLength: 1,
    maxLength: 4,
  });
  fc.assert(
    fc.property(
      messages,
      fc.boolean(),
      fc.array(fc.nat({ max: 2_000 }), { maxLength: 10 }),
      (sent, mask, cuts) => {
        const bytes = written(sent, mask);
        const filter = replacing();
        const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
        let from = 0;
        const out: Buffer[] = [];
        for (const end of ends) {
          out.push(filter.push(bytes.subarray(from, end)));
          from = end;
        }
        const wanted = sent.map((fragments) => fragments.join('').replaceAll('secret-value', '-'));
        assert.deepEqual(read(Buffer.concat(out), mask), wanted);
      },
    ),
    { numRuns: 500 },
  );
});

test('a frame too long to be collected passes in pieces and stays one message', () => {
  const text = `${'x'.repeat(200_000)}secret-value${'y'.repeat(100_000)}`;
  const bytes = written([[text]], true);
  const filter = replacing();
  const out: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 1_000) out.push(filter.push(bytes.subarray(at, at + 1_000)));
  assert.ok(Buffer.concat(out.slice(0, 150)).length > 100_000, 'it waited for the whole frame');
  assert.deepEqual(read(Buffer.concat(out), true), [text.replace('secret-value', '-')]);
});

test('frames that were not agreed on are refused', () => {
  const bad = [
    [0xc1, 0x00],
    [0x00, 0x00],
    [0x09, 0x00],
    [0x89, 0x7e, 0x00, 0x7e],
    [0x01, 0x00, 0x81, 0x00],
    [0x81, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
  ];
  for (const bytes of bad)
    assert.throws(() => replacing().push(Buffer.from(bytes)), FrameError, String(bytes));
});

test('random bytes are refused or passed, and never held without bound', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 }), (pieces) => {
      const filter = replacing();
      try {
        for (const piece of pieces) filter.push(Buffer.from(piece));
      } catch (error) {
        assert.ok(error instanceof FrameError);
      }
    }),
    { numRuns: 1_000 },
  );
});
