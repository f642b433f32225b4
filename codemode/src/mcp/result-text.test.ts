/** Results as a model reads them: whole where they are ordinary, and within bounds whatever they are. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import type { ExecuteResult } from '../types.ts';
import { cutOutput, resultText } from './result-text.ts';

const base = { stats: { wallMs: 1, cpuMs: 1, toolCalls: 0, warm: true }, executionId: 'x' };
const textOf = (result: unknown) => resultText({ result, ...base });

it('resultText() writes what JSON writes', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => assert.equal(textOf(value), JSON.stringify(value, null, 1))),
  );
  assert.equal(textOf({ at: new Date(0), none: undefined }), '{\n "at": "1970-01-01T00:00:00.000Z"\n}');
  assert.equal(textOf(undefined), 'undefined');
});

it('resultText() looks at no more of a result than it shows', () => {
  let reads = 0;
  const large = new Proxy(
    Array.from({ length: 1_000_000 }, () => 1),
    {
      get(target, key) {
        reads += 1;
        return Reflect.get(target, key);
      },
    },
  );
  const text = textOf(large);
  assert.match(text, /--- TRUNCATED --- the result is longer$/);
  assert.ok(reads < 50_000, `${reads} reads`);
});

it('resultText() is bounded for a result that is deep, circular, or all text', () => {
  let deep: unknown = [];
  for (let depth = 0; depth < 200_000; depth += 1) deep = [deep];
  const circle: { self?: unknown } = {};
  circle.self = circle;
  for (const hostile of [
    deep,
    circle,
    'x'.repeat(1_000_000),
    { ['k'.repeat(1_000_000)]: 1 },
    [2n ** 100_000n],
  ])
    assert.ok(textOf(hostile).length < 60_000);
  const failed: ExecuteResult = {
    result: undefined,
    error: 'x'.repeat(1_000_000),
    errorInfo: { kind: 'runtime', name: 'Error', message: 'x'.repeat(1_000_000) },
    logs: ['y'.repeat(1_000_000)],
    warnings: ['z'.repeat(1_000_000)],
    ...base,
  };
  assert.ok(resultText(failed).length < 80_000);
});

it('cutOutput() shows as much text as of a result, and every image', () => {
  const image = { type: 'image', data: 'AAAA', mimeType: 'image/png' } as const;
  const long = { type: 'text', text: 'x'.repeat(20_000) } as const;
  const shown = cutOutput([{ type: 'text', text: 'short' }, long, image, long, long, image]);
  assert.deepEqual(
    shown.map(({ type }) => type),
    ['text', 'text', 'image', 'text', 'image'],
  );
  assert.match((shown[3] as { readonly text: string }).text, /^x+\n--- TRUNCATED ---/);
});
