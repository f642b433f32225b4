/** Prometheus' text format: whatever a label holds, a metric stays on its lines. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { metricText } from './metrics.ts';

test('metricText() writes help, type and one line per sample', () => {
  const text = metricText({
    name: 'squash_x',
    help: 'a\\b\nc',
    type: 'gauge',
    samples: [
      { labels: {}, value: 1 },
      { labels: { a: 'x"y\\z\n', b: '' }, value: 0.5 },
    ],
  });
  assert.equal(
    text,
    '# HELP squash_x a\\\\b\\nc\n# TYPE squash_x gauge\nsquash_x 1\nsquash_x{a="x\\"y\\\\z\\n",b=""} 0.5\n',
  );
});

test('metricText() keeps any label value within its quotes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (label) => {
      const lines = metricText({
        name: 'x',
        help: '',
        type: 'counter',
        samples: [{ labels: { l: label }, value: 1 }],
      }).split('\n');
      assert.equal(lines.length, 4);
      const [, quoted = ''] = /^x\{l="((?:[^"\\]|\\["\\n])*)"\} 1$/su.exec(lines[2] ?? '') ?? [];
      const plain = quoted.replaceAll(/\\(.)/g, (_all, c: string) => (c === 'n' ? '\n' : c));
      assert.equal(plain, label);
    }),
  );
});
