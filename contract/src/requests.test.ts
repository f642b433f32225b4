/** Properties of the request parsers: they never throw, and what they let through keeps its promises. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { execBodySchema, execControlSchema, execStartSchema, jobBodySchema } from './exec.ts';
import { limits } from './limits.ts';
import {
  askedByDefault,
  activateBodySchema,
  createBodySchema,
  restoreBodySchema,
  snapshotBodySchema,
} from './sandbox.ts';
import { safeParse } from './safe-parse.ts';
import { utf8Bytes } from './tolerant.ts';

const schemas = {
  create: createBodySchema,
  exec: execBodySchema,
  job: jobBodySchema,
  activate: activateBodySchema,
  snapshot: snapshotBodySchema,
  restore: restoreBodySchema,
  start: execStartSchema,
  control: execControlSchema,
};
const keys = [
  'id',
  'owner',
  'layers',
  'task',
  'cpu',
  'memory_mb',
  'max_lifetime_s',
  'allow_net',
  'cmd',
  'workdir',
  'timeout',
  'module',
  'label',
  'argv',
  'env',
  'cwd',
  'type',
  '__proto__',
  'constructor',
];
const text = fc.string({ unit: 'binary', maxLength: 80 });
const nasty = fc.constantFrom<unknown>(
  '..',
  '/',
  '',
  '\0',
  'a\nb',
  '-1',
  '5m',
  1e308,
  -0,
  [],
  {},
  null,
  true,
  ['..'],
);
/** JSON as a client could send it, built as text so that `__proto__` is a key like any other. */
const body = fc
  .array(fc.tuple(fc.constantFrom(...keys), fc.oneof(nasty, fc.jsonValue({ maxDepth: 2 }), text)), {
    maxLength: 12,
  })
  .map(
    (pairs) =>
      `{${pairs.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(',')}}`,
  )
  .map((json): unknown => JSON.parse(json));

test('request schemas never throw, and each refusal is one sentence', () => {
  fc.assert(
    fc.property(body, (value) => {
      for (const schema of Object.values(schemas)) {
        const parsed = safeParse(schema, value);
        if (!parsed.success) assert.match(parsed.error.issues[0]?.message ?? '', /\S/);
      }
    }),
    { numRuns: 300 },
  );
});

test('what zod would compare and can not is refused as any other thing of the wrong type', () => {
  for (const length of [{ toString: false }, [{ valueOf: 1, toString: 1 }]]) {
    const issues = (part: unknown) => safeParse(createBodySchema, { id: 'a', owner: part }).error?.issues;
    assert.deepEqual(issues({ length }), issues({}));
    assert.notEqual(issues({}), undefined);
  }
  const deep: unknown = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
  const { success } = safeParse(createBodySchema, { id: { length: { toString: false } }, layers: deep });
  assert.equal(success, false);
});

test('a create request that passes has an id, layers and numbers within the limits', () => {
  fc.assert(
    fc.property(body, fc.oneof(text, fc.stringMatching(/^[a-z0-9_-]{1,70}$/)), (value, id) => {
      const parsed = safeParse(createBodySchema, { ...(value as object), id });
      if (!parsed.success) return;
      assert.match(parsed.data.id, /^[A-Za-z0-9_-]{1,64}$/);
      assert.ok(parsed.data.layers.length <= limits.layersMax);
      for (const layer of parsed.data.layers) assert.match(layer, /^(?!\.)[A-Za-z0-9_.-]{1,128}$/);
      assert.equal(new Set(parsed.data.layers).size, parsed.data.layers.length);
      const { cpu = askedByDefault.cpu, memory_mb: memoryMb = askedByDefault.memoryMb } = parsed.data;
      assert.ok(cpu >= limits.cpuMin && cpu <= limits.cpuMax);
      assert.ok(Number.isInteger(memoryMb) && Number.isInteger(parsed.data.max_lifetime_s ?? 0));
      assert.ok(utf8Bytes(parsed.data.owner ?? '') <= limits.ownerBytesMax);
    }),
    { numRuns: 300 },
  );
});

test('an exec request that passes can be run as it is', () => {
  const timeouts = fc.oneof(fc.double({ noNaN: true }), fc.integer(), fc.stringMatching(/^\d{1,6}[smhd]?$/));
  const dirs = fc.oneof(
    text,
    text.map((path) => `/${path}`),
    fc.constant(null),
  );
  fc.assert(
    fc.property(text, dirs, timeouts, (cmd, workdir, timeout) => {
      const parsed = execBodySchema.safeParse({ cmd, workdir, timeout });
      if (!parsed.success) return;
      assert.ok(!parsed.data.cmd.includes('\0') && parsed.data.cmd.trim() !== '');
      const { workdir: path = '/' } = parsed.data;
      assert.ok(path.startsWith('/') && !path.split('/').includes('..'));
      assert.ok(Number.isInteger(parsed.data.timeout));
      assert.ok(parsed.data.timeout >= 1 && parsed.data.timeout <= limits.execTimeoutSMax);
    }),
    { numRuns: 300 },
  );
});

test('a timeout of nothing is refused, and one beyond the longest is the longest', () => {
  const of = (timeout: unknown) => execBodySchema.safeParse({ cmd: 'true', timeout });
  for (const timeout of [0, '0', '0s', -1, '-5']) {
    assert.match(
      of(timeout).error?.issues[0]?.message ?? '',
      /^timeout must be a number of seconds/,
      `${timeout}`,
    );
  }
  for (const [given, seconds] of [
    [0.2, 1],
    [90, 90],
    ['5m', 300],
    [limits.execTimeoutSMax + 1, limits.execTimeoutSMax],
    [1e308, limits.execTimeoutSMax],
  ] as const) {
    assert.equal(of(given).data?.timeout, seconds, `${given}`);
  }
});

test('layers mean the same as a comma list and as an array', () => {
  const names = fc.array(fc.stringMatching(/^[0-9]{3}-[a-z]{1,8}$/), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(names, (layers) => {
      const list = createBodySchema.parse({ id: 'x', layers: ` ${layers.join(' , ')} ,` });
      assert.deepEqual(list.layers, createBodySchema.parse({ id: 'x', layers }).layers);
    }),
  );
});
