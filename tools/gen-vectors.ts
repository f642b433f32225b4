/**
 * Writes `contract/guest/vectors.json` and `native/tests/vectors.gen.h`: byte strings that both codecs must read
 * alike, and write alike where they are valid. `--check` compares instead.
 *
 * The bytes are put together here by hand, not by a codec: a mistake that both codecs shared would else be its own
 * proof.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fieldTags, frameTypes } from '../contract/src/guest/frames.ts';

type Type = keyof typeof frameTypes;
type Tag = keyof typeof fieldTags;
type FrameVector = { type: Type; data: string } | { type: Type; fields: [Tag, number | string][] };
export interface ValidVector {
  name: string;
  hex: string;
  frames: FrameVector[];
}
export interface InvalidVector {
  name: string;
  hex: string;
  /** Bytes that follow `hex` so many times. */
  repeat?: { hex: string; times: number };
  fault: string;
}

const little = (value: number | bigint, bytes: number): string => {
  let hex = '';
  for (let i = 0, left = BigInt(value); i < bytes; i++, left >>= 8n)
    hex += (left & 255n).toString(16).padStart(2, '0');
  return hex;
};
const text = (value: string): string => Buffer.from(value).toString('hex');
const bytesIn = (hex: string): number => hex.length / 2;
const frame = (type: number, payload = ''): string => little(bytesIn(payload), 4) + little(type, 4) + payload;
const field = (tag: number, value: string): string => little(tag, 2) + little(bytesIn(value), 4) + value;

function describedField([name, value]: [Tag, number | string]): string {
  return field(fieldTags[name].tag, typeof value === 'number' ? little(value, 8) : value);
}

function valid(name: string, ...frames: FrameVector[]): ValidVector {
  const hex = frames.map((one) =>
    frame(frameTypes[one.type], 'data' in one ? one.data : one.fields.map(describedField).join('')),
  );
  return { name, hex: hex.join(''), frames };
}

const ack = frameTypes.ack;
const offset = fieldTags.offset.tag;

const vectors: { valid: ValidVector[]; invalid: InvalidVector[] } = {
  valid: [
    valid('nothing at all'),
    valid('a frame without fields', { type: 'release', fields: [] }),
    valid('an empty data frame', { type: 'stdin', data: '' }),
    valid('bytes of every value', {
      type: 'stdout',
      data: Array.from({ length: 256 }, (_, i) => little(i, 1)).join(''),
    }),
    valid('the smallest and the largest integer', {
      type: 'exit',
      fields: [
        ['exitCode', 0],
        ['stdoutOffset', Number.MAX_SAFE_INTEGER],
      ],
    }),
    valid('integers around 32 bits', {
      type: 'ack',
      fields: [
        ['stdoutOffset', 0xffff_ffff],
        ['stderrOffset', 0x1_0000_0000],
        ['offset', 0x1_0000_0001],
      ],
    }),
    valid('repeated and empty byte fields', {
      type: 'exec',
      fields: [
        ['execId', text('e1')],
        ['arg', text('sh')],
        ['arg', ''],
        ['arg', text('-c')],
        ['env', text('A=')],
        ['uid', 1000],
      ],
    }),
    valid('bytes that are no text', { type: 'fileRead', fields: [['path', '2ffffe0a00c3']] }),
    valid(
      'several frames in one piece',
      { type: 'started', fields: [['pid', 7]] },
      { type: 'stdout', data: text('a\n') },
      { type: 'stderr', data: text('b') },
      { type: 'exit', fields: [['exitSignal', 9]] },
    ),
    valid(
      'one frame of each type',
      ...(Object.keys(frameTypes) as Type[]).map(
        (type): FrameVector =>
          ['stdin', 'stdout', 'stderr', 'data'].includes(type) ? { type, data: '00' } : { type, fields: [] },
      ),
    ),
    valid('one field of each tag', {
      type: 'ok',
      fields: (Object.keys(fieldTags) as Tag[]).map((name, i): [Tag, number | string] =>
        fieldTags[name].type === 'u64' ? [name, i] : [name, text(name)],
      ),
    }),
  ],
  invalid: [
    { name: 'half a header', hex: '00000000', fault: 'truncated' },
    {
      name: 'a payload that is cut off',
      hex: frame(frameTypes.stdin, '0102').slice(0, -2),
      fault: 'truncated',
    },
    { name: 'type 0', hex: frame(0), fault: 'type' },
    { name: 'a type between two known ones', hex: frame(0x0f), fault: 'type' },
    { name: 'type 255', hex: frame(0xff), fault: 'type' },
    { name: 'the first reserved byte set', hex: `00000000${little(ack, 1)}010000`, fault: 'reserved' },
    { name: 'the last reserved byte set', hex: `00000000${little(ack, 1)}000080`, fault: 'reserved' },
    { name: 'a payload one byte too long', hex: little(262_145, 4) + little(ack, 4), fault: 'length' },
    { name: 'a payload of 4 GiB', hex: `ffffffff${little(ack, 4)}`, fault: 'length' },
    {
      name: 'data one byte too long',
      hex: little(65_537, 4) + little(frameTypes.stdout, 4),
      fault: 'length',
    },
    { name: 'a field header that is cut off', hex: frame(ack, '2000'), fault: 'field' },
    { name: 'a field longer than the payload', hex: frame(ack, `0100${little(3, 4)}6161`), fault: 'field' },
    { name: 'a field of 4 GiB', hex: frame(ack, '0100ffffffff61'), fault: 'field' },
    { name: 'tag 0', hex: frame(ack, field(0, '')), fault: 'tag' },
    { name: 'an unknown tag', hex: frame(ack, field(999, '')), fault: 'tag' },
    { name: 'an integer of 4 bytes', hex: frame(ack, field(offset, '00000000')), fault: 'integer' },
    { name: 'an integer of 9 bytes', hex: frame(ack, field(offset, '000000000000000000')), fault: 'integer' },
    {
      name: 'an integer above 2^53 - 1',
      hex: frame(ack, field(offset, little(2n ** 53n, 8))),
      fault: 'integer',
    },
    { name: 'an integer of 64 ones', hex: frame(ack, field(offset, 'ffffffffffffffff')), fault: 'integer' },
    {
      name: 'one field too many',
      hex: little(8193 * 6, 4) + little(frameTypes.exec, 4),
      repeat: { hex: field(fieldTags.arg.tag, ''), times: 8193 },
      fault: 'count',
    },
    { name: 'a good frame before a bad one', hex: frame(ack) + frame(0), fault: 'type' },
  ],
};

function cField([name, value]: [Tag, number | string]): string {
  const { tag } = fieldTags[name];
  return typeof value === 'number' ? `{${tag}, UINT64_C(${value}), NULL}` : `{${tag}, 0, "${value}"}`;
}

function cFrame(one: FrameVector): string {
  if ('data' in one) return `{${frameTypes[one.type]}, "${one.data}", 0, NULL}`;
  const fields =
    one.fields.length === 0 ? 'NULL' : `(const struct vector_field[]){${one.fields.map(cField).join(', ')}}`;
  return `{${frameTypes[one.type]}, NULL, ${one.fields.length}, ${fields}}`;
}

function cHeader(): string {
  return [
    '/* Written by tools/gen-vectors.ts. Do not edit. */',
    '#include <stddef.h>',
    '#include <stdint.h>',
    '/* hex NULL: the number. */',
    'struct vector_field { uint16_t tag; uint64_t number; const char *hex; };',
    '/* data NULL: the fields. */',
    'struct vector_frame { uint8_t type; const char *data; unsigned count; const struct vector_field *fields; };',
    'struct valid_vector { const char *name; const char *hex; unsigned count; const struct vector_frame *frames; };',
    'struct invalid_vector { const char *name; const char *hex; const char *repeat; unsigned times; const char *fault; };',
    'static const struct valid_vector valid_vectors[] = {',
    ...vectors.valid.map(({ name, hex, frames }) => {
      const list =
        frames.length === 0 ? 'NULL' : `(const struct vector_frame[]){${frames.map(cFrame).join(',\n    ')}}`;
      return `  {"${name}", "${hex}", ${frames.length}, ${list}},`;
    }),
    '};',
    'static const struct invalid_vector invalid_vectors[] = {',
    ...vectors.invalid.map(
      ({ name, hex, repeat, fault }) =>
        `  {"${name}", "${hex}", "${repeat?.hex ?? ''}", ${repeat?.times ?? 0}, "${fault}"},`,
    ),
    '};',
    '',
  ].join('\n');
}

const outputs = [
  {
    path: new URL('../contract/guest/vectors.json', import.meta.url),
    content: `${JSON.stringify(vectors, null, 1)}\n`,
  },
  { path: new URL('../native/tests/vectors.gen.h', import.meta.url), content: cHeader() },
];
for (const { path, content } of outputs) {
  if (process.argv.includes('--check')) {
    if (readFileSync(path, 'utf8') === content) continue;
    console.error(`${path.pathname} is stale: run \`node tools/gen-vectors.ts\``);
    process.exitCode = 1;
  } else {
    mkdirSync(new URL('.', path), { recursive: true });
    writeFileSync(path, content);
  }
}
