/** What placeholders look like that nobody chose. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { generatePlaceholder, placeholderPrefixFor } from './placeholder.ts';

test('generated placeholders are long, different, and look like the vendor’s', () => {
  const prefix = placeholderPrefixFor('sk-ant-api03-abcdefgh');
  const made = new Set(Array.from({ length: 100 }, () => generatePlaceholder(prefix)));
  assert.equal(made.size, 100);
  for (const placeholder of made) assert.match(placeholder, /^sk-ant-api03-[A-Za-z0-9_-]{43}$/);
  assert.match(generatePlaceholder(placeholderPrefixFor('whatever')), /^squash-/);
  assert.throws(() => generatePlaceholder('a b'), RangeError);
});
