/** Serialisation as a property: what goes in comes out, for any value; and no text whatever makes the reader do more than throw. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { decodeHost, encodeHost } from '../host/values.ts';
import { decodeValue } from './decode.ts';
import { encodeValue } from './encode.ts';
import { capturePrimordials } from './primordials.ts';

const bytesMax = 10_000_000;

const values = fc.anything({
  withBigInt: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withTypedArray: true,
  withSparseArray: true,
  withObjectString: true,
  maxDepth: 4,
});

it('decodeHost() gives back what encodeHost() was given', () => {
  fc.assert(
    fc.property(values, (value) => {
      const back = decodeHost('structured', encodeHost('structured', value, bytesMax));
      assert.deepStrictEqual(normal(back), normal(value));
    }),
    { numRuns: 500 },
  );
});

/** Objects without prototype arrive with the ordinary one; that is the only difference. */
function normal(value: unknown, seen = new Map<unknown, unknown>()): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const known = seen.get(value);
  if (known !== undefined) return known;
  if (Array.isArray(value)) {
    const copy: unknown[] = [];
    copy.length = value.length;
    seen.set(value, copy);
    for (const key of Object.keys(value))
      if (/^\d+$/.test(key)) copy[Number(key)] = normal(value[Number(key)], seen);
    return copy;
  }
  if (value instanceof Map)
    return new Map([...value].map(([key, item]) => [normal(key, seen), normal(item, seen)]));
  if (value instanceof Set) return new Set([...value].map((item) => normal(item, seen)));
  if (value instanceof Date || ArrayBuffer.isView(value)) return value;
  if (Object.getPrototypeOf(value) !== null && Object.getPrototypeOf(value) !== Object.prototype)
    return value.valueOf() === value ? { ...value } : { ...(value as object) };
  const copy: Record<string, unknown> = {};
  seen.set(value, copy);
  for (const [key, item] of Object.entries(value))
    Object.defineProperty(copy, key, {
      value: normal(item, seen),
      enumerable: true,
      writable: true,
      configurable: true,
    });
  return copy;
}

it('decodeValue() throws or returns for any text, and pollutes nothing', () => {
  const p = capturePrimordials();
  const text = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .array(
        fc.array(
          fc.oneof(
            fc.constantFrom('o', 'a', 'h', 'm', 's', 'd', 't', 'e', 'x', 'j', 'r', 'u', '__proto__'),
            fc.integer({ min: -2, max: 6 }),
            fc.tuple(fc.constant('r'), fc.integer({ min: -1, max: 5 })),
            fc.json(),
          ),
        ),
      )
      .map((nodes) => JSON.stringify(nodes)),
  );
  fc.assert(
    fc.property(text, (given) => {
      try {
        decodeValue(p, given);
      } catch (failure) {
        assert.ok(failure instanceof Error);
      }
      assert.deepEqual(Object.keys(Object.prototype), []);
    }),
    { numRuns: 2000 },
  );
});

it('encodeValue() stops at its limit without building more', () => {
  const p = capturePrimordials();
  assert.throws(
    () =>
      encodeValue(
        p,
        Array.from({ length: 1e6 }, () => 'x'),
        { bytesMax: 1000, dropFunctions: false },
      ),
    (failure) => (failure as { encodeFailure?: string }).encodeFailure === 'result-limit',
  );
});

it('decodeHost() does not put sixty thousand keys into one place of a Map or a Set', () => {
  const keys = (each: (at: number) => unknown) =>
    Array.from({ length: 60_000 }, (_, at) => each(at)).map((key) => JSON.stringify(key));
  // V8 hashes a BigInt by its low 64 bits.
  const colliding = keys((at) => ['b', `${at.toString(16)}${'0'.repeat(16)}`]);
  const ordinary = keys((at) => ['b', (at * 7919).toString(16)]);
  for (const [kind, write] of [
    ['m', (key: string) => `${key},1`],
    ['s', (key: string) => key],
  ] as const) {
    const text = (list: readonly string[]) => `[["${kind}",${list.map(write).join(',')}]]`;
    assert.throws(() => decodeHost('structured', text(colliding)), TypeError);
    const { size } = decodeHost('structured', text(ordinary)) as Map<unknown, unknown> | Set<unknown>;
    assert.equal(size, 60_000);
  }
});

it('encodeHost() writes the flags an expression has, not those it claims', () => {
  const forged = Object.defineProperty(/a/g, 'unicodeSets', { value: true });
  Object.defineProperty(forged, 'flags', { value: 'v' });
  const back = decodeHost('structured', encodeHost('structured', forged, bytesMax)) as RegExp;
  assert.equal(String(back), '/a/g');
  const all = [/a\/b\n/dgimsuy, /[\p{L}--[a-z]]/v, /\p{Lu}\p{RGI_Emoji}/v];
  assert.deepEqual(decodeHost('structured', encodeHost('structured', all, bytesMax)), all);
});

it('decodeHost() makes no expression that takes long, and encodeHost() says which it is', () => {
  for (const [source, flags, fault] of [
    ['a'.repeat(1025), '', /list\[1\] is a RegExp that is longer than 1024/],
    ['\\p{RGI_Emoji}'.repeat(3), 'v', /list\[1\] is a RegExp that names too many classes/],
    ['\\P{L}'.repeat(11), 'u', /too many classes/],
  ] as const) {
    const expression = new RegExp(source, flags);
    assert.throws(() => encodeHost('structured', { list: [1, expression] }, bytesMax), fault);
    const text = JSON.stringify([['x', source, flags]]);
    assert.throws(() => decodeHost('structured', text), TypeError);
  }
  assert.ok(decodeHost('structured', JSON.stringify([['x', '\\p{L}'.repeat(200), 'i']])) instanceof RegExp);
  const many = Array.from({ length: 4000 }, (_, at) => ['x', `\\p{RGI_Emoji}\\p{RGI_Emoji}${at}`, 'iv']);
  assert.throws(() => decodeHost('structured', JSON.stringify(many)), TypeError);
});

it('decodeHost() follows each of forty thousand values that stand for one another once', () => {
  const length = 40_000;
  const began = process.threadCpuUsage();
  const chain = Array.from({ length }, (_, at) => ['j', ['r', at + 2]]);
  const list = ['a', ['r', 1], ['r', length / 2], ['r', length + 1]];
  const text = JSON.stringify([list, ...chain, ['o', 'end', 'reached']]);
  const [first, middle, last] = decodeHost('structured', text) as readonly unknown[];
  assert.deepEqual(last, { end: 'reached' });
  assert.ok(first === last && middle === last);
  const ring = [...Array.from({ length }, (_, at) => ['j', ['r', at + 1]]), ['j', ['r', 0]]];
  assert.throws(() => decodeHost('structured', JSON.stringify(ring)), TypeError);
  // A tenth of a second; it was ten.
  assert.ok(process.threadCpuUsage(began).user < 2_000_000);
});

it('decodeValue() takes no list where a text belongs', () => {
  const p = capturePrimordials();
  for (const node of [
    ['n', [1]],
    ['b', ['1']],
    ['o', ['a'], 1],
    ['e', ['Error'], ''],
    ['t', 'Uint8Array', []],
    ['x', ['a'], ''],
    ['h', [1]],
  ])
    assert.throws(() => decodeValue(p, JSON.stringify([node])), TypeError, JSON.stringify(node));
});
