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
