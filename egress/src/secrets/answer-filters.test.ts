/** What leaves a filter and when must not depend on how much of a value the text is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { AnswerFilter, chained } from './answer-filters.ts';
import { Matcher } from './matcher.ts';
import type { ByteFilter } from '../flow/pump.ts';

const value = 'sk-value-Zx81q';
const matcher = new Matcher([{ bytes: Buffer.from(value), meaning: 'X' }]);
const put = (): Buffer => Buffer.from('PLACE');
const waiting = (): ByteFilter => new AnswerFilter(matcher, put, { waits: true });
const passing = (): ByteFilter => new AnswerFilter(matcher, put, { waits: false });
const makers = { waiting, passing, both: () => chained(waiting(), passing()) };
const inPieces = (filter: ByteFilter, pieces: readonly string[]): string[] =>
  pieces.map((piece) => filter.push(Buffer.from(piece)).toString());

for (const [name, make] of Object.entries(makers)) {
  test(`the ${name} filter lets as many bytes go for the beginning of a value as for any other text`, () => {
    const text = fc.string({ unit: fc.constantFrom('s', 'k', ' ', '\n', 'é'), maxLength: 30 });
    fc.assert(
      fc.property(text, fc.nat({ max: value.length - 1 }), fc.nat({ max: 20 }), (before, length, cut) => {
        const guess = value.slice(0, length);
        const other = '#'.repeat(length);
        const sizes = [guess, other].map((tail) => {
          const whole = before + tail;
          return inPieces(make(), [whole.slice(0, cut), whole.slice(cut)]).map((out) => out.length);
        });
        assert.deepEqual(sizes[0], sizes[1]);
      }),
      { numRuns: 1_000 },
    );
  });

  test(`the ${name} filter changes nothing else and shows no whole value, wherever it is cut`, () => {
    const part = fc.oneof(fc.constant(value), fc.constantFrom('sk-val', '\n', 'text ', 'é', 's'));
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), fc.array(fc.nat({ max: 90 })), (parts, cuts) => {
        const whole = Buffer.from(parts.join(''));
        const ends = [...cuts.map((cut) => cut % (whole.length + 1)), whole.length].toSorted((a, b) => a - b);
        const filter = make();
        const pieces = ends.map((end, at) => whole.subarray(ends[at - 1] ?? 0, end));
        const out = Buffer.concat([...pieces.map((piece) => filter.push(piece)), filter.end()]).toString();
        assert.ok(!out.includes(value), out);
        if (!whole.includes(value)) assert.equal(out, whole.toString());
        else if (cuts.length === 0) assert.equal(out, whole.toString().replaceAll(value, 'PLACE'));
      }),
      { numRuns: 1_000 },
    );
  });
}

test('whatever was pushed and settled before, the beginning of a value leaves when any other text does', () => {
  const text = fc.string({ unit: fc.constantFrom('s', 'k', ' ', '\n', 'é'), maxLength: 30 });
  const recent = fc.array(fc.nat({ max: 40 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(text, fc.nat({ max: value.length - 1 }), recent, (before, length, settles) => {
      const sizes = [value.slice(0, length), '#'.repeat(length)].map((tail) => {
        const filter = waiting();
        const pushed = filter.push(Buffer.from(before + tail)).length;
        return [pushed, ...settles.map((bytes) => filter.settle?.(bytes).length)];
      });
      assert.deepEqual(sizes[0], sizes[1]);
    }),
    { numRuns: 1_000 },
  );
});

test('lines leave when they come, and what waits leaves when it settles', () => {
  const filter = waiting();
  assert.deepEqual(inPieces(filter, ['data: hello\n\n', 'hel']), ['data: hello\n\n', '']);
  assert.equal(filter.settle?.(3).toString(), '');
  assert.equal(filter.settle?.(1).toString(), 'he');
  assert.equal(filter.settle?.(0).toString(), 'l');
  assert.deepEqual(inPieces(filter, ['lo sk-va']), ['']);
  assert.deepEqual(inPieces(filter, ['lue-Zx81q\n']), ['lo PLACE\n']);
});

test('the end of a value whose beginning has gone is made unreadable, and keeps its length', () => {
  const past = passing();
  assert.deepEqual(inPieces(past, ['a sk-value', '-Zx81q b']), ['a sk-value', '...... b']);
  assert.equal(past.end().toString(), '');
  const filter = waiting();
  assert.deepEqual(inPieces(filter, ['a sk-value']), ['']);
  assert.equal(filter.settle?.(0).toString(), 'a sk-value');
  assert.deepEqual(inPieces(filter, ['-Zx81q b\n']), ['...... b\n']);
});

test('a value that is the beginning of another one is replaced, whichever it was', () => {
  const two = new Matcher([
    { bytes: Buffer.from(value), meaning: 'X' },
    { bytes: Buffer.from(`${value}-more`), meaning: 'Y' },
  ]);
  const which = (meaning: string): Buffer => Buffer.from(meaning);
  const past = new AnswerFilter(two, which, { waits: false });
  assert.deepEqual(inPieces(past, [`a ${value}`, '-more b']), ['a X', '..... b']);
  const filter = new AnswerFilter(two, which, { waits: true });
  assert.deepEqual(inPieces(filter, [`a ${value}`, '-more\n']), ['', 'a Y\n']);
  assert.deepEqual(inPieces(filter, [`a ${value}`]), ['']);
  assert.equal(filter.settle?.(0).toString(), 'a X');
});
