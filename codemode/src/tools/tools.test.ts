/** Names, declarations and search over schemas that somebody else wrote. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { z } from 'zod';
import { judge } from '../host/policy.ts';
import { toolSetOf } from '../host/tool-set.ts';
import { stripTypes } from '../source/typescript.ts';
import { catalogOf, toolTreeOf } from './catalog.ts';
import { declarationsOf, typeOf } from './declarations.ts';
import { uniqueNames } from './names.ts';
import { ToolSearch } from './search.ts';

it('uniqueNames() makes names safe and different', () => {
  const given = [
    'read-file',
    'read_file',
    'read.file',
    '2fa',
    'delete',
    'then',
    '',
    'ü',
    'a b',
    'constructor',
  ];
  assert.deepEqual(uniqueNames(given), [
    'read_file',
    'read_file_2',
    'read_file_3',
    '_2fa',
    'delete_',
    'then_',
    '_',
    '__2',
    'a_b',
    'constructor_',
  ]);
});

it('typeOf() renders what schemas say', () => {
  assert.equal(
    typeOf({
      type: 'object',
      properties: { a: { type: 'integer' }, 'b-c': { enum: ['x', 1] } },
      required: ['a'],
    }),
    '{ a: number; "b-c"?: "x" | 1 }',
  );
  assert.equal(typeOf({ type: 'array', items: { type: ['string', 'null'] } }), 'Array<string | null>');
  assert.equal(
    typeOf({ anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'number' } }] }),
    'string | number[]',
  );
  assert.equal(typeOf({ $ref: '#/$defs/a', $defs: { a: { const: 'x' } } }), '"x"');
  assert.equal(typeOf(undefined), 'unknown');
});

it('declarationsOf() stays TypeScript whatever a server says', () => {
  const hostile = {
    description: '*/ declare const x: any; /*\n```',
    properties: { 'a"b': { type: 'string', description: '*/' } },
    type: 'object',
  };
  const cycle = { type: 'object', properties: { self: { $ref: '#' } } };
  const entries = [
    ...catalogOf({ 'do it': { description: hostile.description, inputSchema: hostile, execute: () => 1 } }),
    ...catalogOf({ loop: { inputSchema: cycle, execute: () => 1 } }, ['other-server']),
  ];
  const text = declarationsOf(entries);
  // Declarations are nothing at run time: whatever is left after stripping has broken out.
  assert.equal(stripTypes(text).trim(), '');
});

it('catalogOf() checks arguments by Zod and by JSON Schema', async () => {
  const tree = toolTreeOf(
    catalogOf({
      zod: { inputSchema: z.object({ n: z.number() }), execute: (input) => input },
      json: {
        inputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
        execute: (input) => input,
      },
      plain: (a: unknown) => a,
    }),
  ) as Readonly<Record<string, (input: unknown) => unknown>>;
  for (const name of ['zod', 'json']) {
    assert.deepEqual(await tree[name]?.({ n: 1 }), { n: 1 });
    assert.throws(() => tree[name]?.({ n: 'x' }), /invalid input/);
  }
  assert.equal(tree['plain']?.(5), 5);
});

for (const [what, rest, input] of [
  ['not', { properties: { a: { not: { const: 'x' } } } }, { a: 'x' }],
  ['a property beside if', { if: {}, properties: { a: { type: 'string' } } }, { a: 1 }],
  ['NaN beside if', { if: {}, properties: { a: { type: 'number' } } }, { a: Number.NaN }],
  ['else', { if: { required: ['a'] }, else: { required: ['b'] } }, {}],
  ['dependentRequired', { dependentRequired: { a: ['b'] } }, { a: 1 }],
  ['required without properties', { required: ['a'] }, {}],
  ['anyOf of names', { properties: { a: {}, b: {} }, anyOf: [{ required: ['a'] }, { required: ['b'] }] }, {}],
  [
    'what is beside $ref',
    { $defs: { s: {} }, properties: { a: { $ref: '#/$defs/s', maxLength: 1 } } },
    { a: 'xx' },
  ],
  ['a pattern without a type', { properties: { a: { pattern: '^x$' } } }, { a: 'y' }],
  ['the length of any list', { properties: { a: { type: 'array', minItems: 1 } } }, { a: [] }],
  ['a reference that leads nowhere', { not: {}, properties: { a: { $ref: '#/x' } } }, {}],
] as const) {
  it(`catalogOf() refuses by JSON Schema: ${what}`, () => {
    const inputSchema = { type: 'object', ...rest };
    const [entry] = catalogOf({ f: { inputSchema, execute: () => 'ran' } });
    assert.throws(() => entry?.call(input), /^TypeError: (invalid input|the tool has a schema)/);
  });
}

it('catalogOf() takes by JSON Schema what it allows: formats nobody knows, what is undefined, defaults', () => {
  const inputSchema = {
    type: 'object',
    properties: { a: { type: 'integer', format: 'int64' }, b: { type: 'string' }, c: { default: 5 } },
    required: ['a', 'c'],
    additionalProperties: false,
  };
  for (const schema of [inputSchema, { ...inputSchema, $id: 'same', if: true }]) {
    const [entry] = catalogOf({ f: { inputSchema: schema, execute: (input) => input } });
    const c = 'if' in schema ? { c: 5 } : {};
    assert.deepEqual(entry?.call({ a: 1, b: undefined, ...c }), { a: 1, b: undefined, c: 5 });
  }
});

it('catalogOf() ends a check whose expression takes for ever, and checks the next', () => {
  const [json, zod] = catalogOf({
    json: {
      inputSchema: { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } },
      execute: () => 'ran',
    },
    zod: { inputSchema: z.object({ a: z.string().regex(/^(a|a)*$/) }), execute: () => 'ran' },
  });
  for (const entry of [json, zod]) {
    assert.throws(() => entry?.call({ a: `${'a'.repeat(100)}!` }), /takes longer/);
    assert.throws(() => entry?.call({ a: 'b' }), /invalid input/);
    assert.equal(entry?.call({ a: 'aa' }), 'ran');
  }
});

it('ToolSearch finds by name, description and parameter, the best first', () => {
  const tools = Object.fromEntries(
    Array.from({ length: 50 }, (_, at) => [`tool${at}`, { description: 'does things', execute: () => at }]),
  );
  const search = new ToolSearch(
    catalogOf({
      ...tools,
      readFile: { description: 'Reads a file', execute: () => 1 },
      listFiles: { description: 'Lists', execute: () => 1 },
    }),
  );
  assert.equal(search.find('read file', 3)[0]?.name, 'codemode.readFile');
  assert.deepEqual(search.find('nothing like that', 3), []);
});

it('judge() puts deny over ask over allow', () => {
  const policy = { allow: ['codemode.fs.*'], ask: ['*.write*'], deny: ['*.write_system'] };
  assert.deepEqual(
    ['codemode.fs.read', 'codemode.fs.write', 'codemode.fs.write_system', 'codemode.db.read'].map((tool) =>
      judge(policy, tool),
    ),
    ['allow', 'ask', 'deny', 'deny'],
  );
  assert.equal(judge({ deny: ['a*a'] }, 'a'), 'allow');
});

it('catalogOf() checks no input that is far larger than it looks, and any other', () => {
  const [entry] = catalogOf({
    f: { inputSchema: z.object({ x: z.array(z.array(z.array(z.number()))) }), execute: () => 'ran' },
  });
  const shared = (value: unknown): unknown[] => Array.from({ length: 1000 }, () => value);
  assert.throws(() => entry?.call({ x: shared(shared(shared(1))) }), /too large/);
  assert.equal(entry?.call({ x: [shared(shared(1)).slice(0, 10)] }), 'ran');
});

it('typeOf() reads a type that is listed many times once, and stops where the text is long enough', () => {
  let reads = 0;
  const properties = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`property${at}`, {}]));
  const schema = {
    type: Array.from({ length: 10_000 }, () => 'object'),
    get properties() {
      reads += 1;
      return properties;
    },
  };
  assert.match(typeOf(schema), /^\{ property0\?: unknown; /);
  assert.ok(reads < 10, `${reads} reads`);
  const types = ['string', 'null', 'string', 'integer', 'number', 'x', 'y', 'z', 'boolean'];
  assert.equal(typeOf({ type: types }), 'string | null | number | unknown');

  let written = 0;
  const long = {
    toJSON() {
      written += 1;
      return 'x'.repeat(1000);
    },
  };
  const $defs = { long: { enum: Array.from({ length: 1000 }, () => long) } };
  assert.equal(
    typeOf({ $defs, anyOf: Array.from({ length: 1000 }, () => ({ $ref: '#/$defs/long' })) }),
    'unknown',
  );
  assert.ok(written < 50, `${written} written`);
});

it('toolTreeOf() takes any name for a namespace, and changes nothing that was there', () => {
  const own = (name: string) => Object.getOwnPropertyNames(Reflect.get(Object.prototype, name));
  const members = own('toString');
  const inherited = ['toString', 'valueOf', 'hasOwnProperty', '__proto__'];
  const shadowed = catalogOf({ same: () => 0 });
  const entries = [
    ...shadowed,
    ...inherited.flatMap((space) => catalogOf({ name: () => space }, [space])),
    ...catalogOf({ name: () => 'inside' }, ['same']),
  ];
  const tree = toolTreeOf(entries);
  assert.deepEqual(
    toolSetOf(tree).entries.map(({ fullName, call }) => [fullName, call()]),
    [['codemode.same.name', 'inside'], ...inherited.map((space) => [`codemode.${space}.name`, space])],
  );
  assert.deepEqual(own('toString'), members);
  assert.deepEqual(Object.keys(Object.prototype), []);
  assert.deepEqual(Object.keys(shadowed[0]?.call ?? {}), []);
});
