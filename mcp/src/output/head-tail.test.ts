/** The two ends of an output, against the whole of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { HeadTail } from './head-tail.ts';

test('HeadTail keeps both ends, and says by position what it left out', () => {
  const pieces = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '\n'), maxLength: 30 }), {
    maxLength: 20,
  });
  fc.assert(
    fc.property(pieces, fc.integer({ min: 2, max: 60 }), fc.nat(1_000), (texts, bytesMax, from) => {
      const ends = new HeadTail(bytesMax, from);
      for (const text of texts) ends.add(Buffer.from(text));
      const whole = texts.join('');
      const kept = ends.kept();
      const [head, tail] = [kept.head, kept.tail].map((bytes) => Buffer.from(bytes).toString());
      assert.equal(kept.next, from + whole.length);
      assert.equal(kept.isCut, whole.length > 2 * Math.floor(bytesMax / 2));
      assert.ok(whole.startsWith(head ?? '') && whole.endsWith(tail ?? ''));
      assert.ok(kept.head.length + kept.tail.length <= Math.max(2, bytesMax));
      assert.equal(kept.leftOut, whole.length - kept.head.length - kept.tail.length);
      if (kept.isCut) assert.equal(kept.leftOutFrom, from + kept.head.length);
      else assert.equal(head, whole);
    }),
  );
});

test('HeadTail counts what the store does not have', () => {
  const ends = new HeadTail(100, 0);
  ends.skip(1_000);
  ends.add(Buffer.from('the end'));
  const { head, tail, leftOut, leftOutFrom, next } = ends.kept();
  assert.equal(head.length, 0);
  assert.equal(Buffer.from(tail).toString(), 'the end');
  assert.deepEqual([leftOut, leftOutFrom, next], [1_000, 0, 1_007]);
});
