/** The TypeScript codec against the shared vectors, in any pieces, and against anything at all. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { z } from 'zod';
import {
  type DataFrameName,
  encodeData,
  encodeDataHeader,
  encodeFields,
  type FieldFrameName,
  type Frame,
  FrameDecoder,
  FrameError,
} from './codec.ts';
import { FieldReader } from './fields.ts';
import { type FieldName, fieldTags, frameTypes, integerMax } from './frames.ts';

const vectorsSchema = z.strictObject({
  valid: z.array(
    z.strictObject({
      name: z.string(),
      hex: z.string(),
      frames: z.array(
        z.strictObject({
          type: z.string(),
          data: z.string().optional(),
          fields: z.array(z.tuple([z.string(), z.union([z.number(), z.string()])])).optional(),
        }),
      ),
    }),
  ),
  invalid: z.array(
    z.strictObject({
      name: z.string(),
      hex: z.string(),
      repeat: z.strictObject({ hex: z.string(), times: z.int() }).optional(),
      fault: z.string(),
    }),
  ),
});
const vectors = vectorsSchema.parse(
  JSON.parse(readFileSync(new URL('../../guest/vectors.json', import.meta.url), 'utf8')),
);

const bytes = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, 'hex'));
const hexOf = (data: Uint8Array): string => Buffer.from(data).toString('hex');

function decodeAll(input: Uint8Array, pieceBytes = input.length): Frame[] {
  const decoder = new FrameDecoder();
  const frames: Frame[] = [];
  for (let at = 0; at < input.length; at += pieceBytes) {
    frames.push(...decoder.decode(input.subarray(at, at + pieceBytes)));
  }
  decoder.end();
  return frames;
}

const described = (frame: Frame) =>
  frame.kind === 'data'
    ? { type: frame.type, data: hexOf(frame.data) }
    : {
        type: frame.type,
        fields: frame.fields.map(({ name, value }) => [
          name,
          typeof value === 'number' ? value : hexOf(value),
        ]),
      };

for (const { name, hex, frames } of vectors.valid) {
  test(`codec reads ${name}, in any pieces`, () => {
    for (const pieceBytes of [1, 2, 7, 8, 9, 4096]) {
      assert.deepEqual(decodeAll(bytes(hex), pieceBytes).map(described), frames);
    }
  });

  test(`codec writes ${name}`, () => {
    const written = frames.map(({ type, data, fields = [] }) =>
      data !== undefined
        ? hexOf(encodeData(type as DataFrameName, bytes(data)))
        : hexOf(
            encodeFields(
              type as FieldFrameName,
              fields.map(([field, value]) => [
                field as FieldName,
                typeof value === 'number' ? value : bytes(value),
              ]),
            ),
          ),
    );
    assert.equal(written.join(''), hex);
  });
}

for (const { name, hex, repeat, fault } of vectors.invalid) {
  test(`codec refuses ${name}`, () => {
    const input = bytes(hex + (repeat === undefined ? '' : repeat.hex.repeat(repeat.times)));
    for (const pieceBytes of [1, 9, 65_536]) {
      assert.throws(
        () => decodeAll(input, pieceBytes),
        (error: unknown) => error instanceof FrameError && error.fault === fault,
      );
    }
  });
}

test('codec reads what it wrote, cut anywhere', () => {
  const names = Object.keys(fieldTags) as FieldName[];
  const field = fc
    .constantFrom(...names)
    .chain((name) =>
      fieldTags[name].type === 'u64'
        ? fc.maxSafeNat().map((value): [FieldName, number | Uint8Array] => [name, value])
        : fc.uint8Array({ maxLength: 300 }).map((value): [FieldName, number | Uint8Array] => [name, value]),
    );
  fc.assert(
    fc.property(fc.array(field, { maxLength: 40 }), fc.integer({ min: 1, max: 50 }), (fields, pieceBytes) => {
      const [frame] = decodeAll(encodeFields('ok', fields), pieceBytes);
      assert.ok(frame?.kind === 'fields');
      assert.deepEqual(
        frame.fields.map(({ name, value }) => [name, value]),
        fields,
      );
    }),
  );
});

test('codec answers any bytes with frames or a FrameError', () => {
  const types = Object.values(frameTypes);
  const framed = fc
    .tuple(fc.constantFrom(...types), fc.uint8Array({ maxLength: 64 }))
    .map(([type, payload]) => new Uint8Array([payload.length, 0, 0, 0, type, 0, 0, 0, ...payload]));
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), framed), (input) => {
      try {
        decodeAll(input, 5);
      } catch (error) {
        assert.ok(error instanceof FrameError);
      }
    }),
    { numRuns: 2000 },
  );
});

test('codec keeps what follows the frame at which the reader stops', () => {
  const decoder = new FrameDecoder();
  const input = new Uint8Array([...encodeFields('ok', []), 1, 2, 3]);
  for (const frame of decoder.decode(input)) {
    assert.equal(frame.type, 'ok');
    break;
  }
  assert.equal(decoder.restBytes, 3);
});

test('encoding refuses what no frame holds', () => {
  const refused = (fault: string, run: () => unknown): void => {
    assert.throws(run, (error: unknown) => error instanceof FrameError && error.fault === fault);
  };
  refused('length', () => encodeDataHeader('stdin', 65_537));
  refused('length', () => encodeFields('exec', [['arg', new Uint8Array(262_144)]]));
  refused('count', () =>
    encodeFields(
      'exec',
      Array.from({ length: 8193 }, () => ['arg', ''] as const),
    ),
  );
  for (const value of [-1, 0.5, Number.NaN, integerMax + 1])
    refused('integer', () => encodeFields('ack', [['offset', value]]));
});

test('FieldReader refuses what is missing, repeated, out of range, not text or not asked for', () => {
  const readerOf = (...fields: (readonly [FieldName, number | string | Uint8Array])[]): FieldReader => {
    const [frame] = decodeAll(encodeFields('ok', fields));
    assert.ok(frame?.kind === 'fields');
    return new FieldReader(frame.fields);
  };
  assert.throws(() => readerOf().integer('pid'), FrameError);
  assert.throws(() => readerOf(['pid', 1], ['pid', 1]).integer('pid'), FrameError);
  assert.throws(() => readerOf(['pid', 9]).integer('pid', { max: 8 }), FrameError);
  assert.throws(() => readerOf(['pid', 2]).flag('pid'), FrameError);
  assert.throws(() => readerOf(['message', new Uint8Array([0xff])]).text('message', 8), FrameError);
  assert.throws(() => readerOf(['message', 'too long']).text('message', 7), FrameError);
  assert.throws(() => readerOf(['pid', 1]).done(), FrameError);
  const reader = readerOf(['pid', 1], ['arg', 'a'], ['arg', 'b']);
  assert.equal(reader.integer('pid'), 1);
  assert.deepEqual(reader.texts('arg', 8), ['a', 'b']);
  assert.equal(reader.optionalText('message', 8), undefined);
  assert.equal(reader.flag('running'), false);
  reader.done();
});
