/** The matcher and the stream filters against a slow, obvious search, over every cut of the text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Matcher, type Pattern } from './matcher.ts';
import { Replacer, Watcher } from './stream-filter.ts';
import { valueForms } from './value-forms.ts';

/** Leftmost, longest; of equal ones the first. */
function slowly(text: string, patterns: readonly string[]): string {
  let out = '';
  for (let at = 0; at < text.length; ) {
    const [best] = patterns
      .filter((each) => text.startsWith(each, at))
      .toSorted((a, b) => b.length - a.length);
    out += best === undefined ? text[at] : `<${best.length}>`;
    at += best?.length ?? 1;
  }
  return out;
}

function matcherOf(patterns: readonly string[]): Matcher<string> {
  return new Matcher(patterns.map((text): Pattern<string> => ({ bytes: Buffer.from(text), meaning: text })));
}

function inPieces(text: string, cuts: readonly number[], filter: (piece: Buffer) => Buffer): string {
  const bytes = Buffer.from(text);
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  let from = 0;
  let out = '';
  for (const end of ends) {
    out += filter(bytes.subarray(from, end)).toString();
    from = end;
  }
  return out;
}

// A small alphabet, so that beginnings are shared, overlap and break off.
const word = (least: number) =>
  fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: least, maxLength: 40 });
const patternsArbitrary = fc.array(word(2), { minLength: 1, maxLength: 6 });
const textArbitrary = patternsArbitrary.chain((patterns) =>
  fc.record({
    patterns: fc.constant(patterns),
    text: fc
      .array(
        fc.oneof(
          word(0),
          fc.constantFrom(...patterns),
          fc.constantFrom(...patterns).map((p) => p.slice(0, -1)),
        ),
      )
      .map((parts) => parts.join('')),
    cuts: fc.array(fc.nat({ max: 500 }), { maxLength: 12 }),
  }),
);

test('a replaced stream is what a slow search makes of the whole text, wherever it is cut', () => {
  fc.assert(
    fc.property(textArbitrary, ({ patterns, text, cuts }) => {
      const filter = new Replacer(matcherOf(patterns), (found) => Buffer.from(`<${found.length}>`));
      const out = inPieces(text, cuts, (piece) => filter.push(piece)) + filter.end().toString();
      assert.equal(out, slowly(text, patterns));
    }),
    { numRuns: 1_000 },
  );
});

test('a watched stream is left alone, and a match is seen no later than with the piece that completes it', () => {
  fc.assert(
    fc.property(textArbitrary, ({ patterns, text, cuts }) => {
      let seen = 0;
      let passed = '';
      const filter = new Watcher(matcherOf(patterns), () => {
        seen += 1;
      });
      const shortest = Math.min(...patterns.map((each) => each.length));
      inPieces(text, cuts, (piece) => {
        const before = seen;
        const out = filter.push(piece);
        passed += out.toString();
        // Placeholders are never a part of each other: the file's schema sees to it.
        const isUnambiguous = patterns.every(
          (one) => !patterns.some((two) => two !== one && two.includes(one)),
        );
        const holdsOne = patterns.some((each) => passed.endsWith(each)) && passed.length >= shortest;
        if (isUnambiguous && holdsOne && slowly(passed, patterns).endsWith('>'))
          assert.ok(seen > before || piece.length === 0);
        return out;
      });
      filter.end();
      assert.equal(passed, text);
      assert.equal(seen, slowly(text, patterns).split('<').length - 1);
    }),
    { numRuns: 1_000 },
  );
});

test('a replacer holds back the beginning of a match and nothing else', () => {
  const filter = new Replacer(matcherOf(['secret-value']), () => Buffer.from('X'));
  assert.equal(filter.push(Buffer.from('data: hello\n\n')).toString(), 'data: hello\n\n');
  assert.equal(filter.push(Buffer.from('data: secret-')).toString(), 'data: ');
  assert.equal(filter.push(Buffer.from('agent\n')).toString(), 'secret-agent\n');
  assert.equal(filter.push(Buffer.from('secret-valu')).toString(), '');
  assert.equal(filter.push(Buffer.from('e secret-value sec')).toString(), 'X X ');
  assert.equal(filter.end().toString(), 'sec');
});

const writes = (text: string): Map<string, string> =>
  new Map(text.split(' ').map((word) => [word.slice(0, 1), word.slice(1)]));
const handlebars = writes(`&&amp; <&lt; >&gt; "&quot; '&#x27; /&#x2F; \`&#x60; =&#x3D;`);
const goTemplate = writes(`&&amp; <&lt; >&gt; "&#34; '&#39; +&#43;`);
const dotNet = (one: string): string =>
  `\\u00${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;

test('every form of a value is found again, and what takes its place decodes to the placeholder', () => {
  // As the schema has it: visible ASCII, spaces inside.
  const value = fc
    .array(fc.integer({ min: 0x21, max: 0x7e }), { minLength: 8, maxLength: 80 })
    .map((codes) => String.fromCharCode(...codes));
  const placeholder = fc.stringMatching(/^[A-Za-z0-9._~-]{8,60}$/);
  fc.assert(
    fc.property(
      value,
      placeholder,
      fc.tuple(fc.string({ maxLength: 5 }), fc.string({ maxLength: 5 })),
      (real, fake, [before, after]) => {
        fc.pre(!fake.includes(real) && !real.includes(fake));
        const matcher = new Matcher(
          valueForms(real, fake).map(({ bytes, replacement }) => ({ bytes, meaning: replacement })),
        );
        const scrub = (text: string): string => {
          const filter = new Replacer(matcher, (replacement) => replacement);
          return Buffer.concat([filter.push(Buffer.from(text)), filter.end()]).toString();
        };
        for (const form of [
          real,
          encodeURIComponent(real),
          new URLSearchParams({ a: real }).toString().slice(2),
          JSON.stringify(real).slice(1, -1),
          encodeURIComponent(encodeURIComponent(real)),
          real.replaceAll(/[^A-Za-z0-9]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`),
          real.replaceAll(/[^A-Za-z0-9]/g, (one) => `&#${one.charCodeAt(0)};`),
          real.replaceAll(/[^A-Za-z0-9]/g, (one) => `&#x${one.charCodeAt(0).toString(16).toUpperCase()};`),
          // lodash, Handlebars; Go's html/template; .NET's System.Text.Json.
          real.replaceAll(/[&<>"'/`=]/g, (one) => handlebars.get(one) ?? one),
          real.replaceAll(/[&<>"'+]/g, (one) => goTemplate.get(one) ?? one),
          real.replaceAll(/["&'+<>`\\]/g, (one) => (one === '\\' ? '\\\\' : dotNet(one))),
          JSON.stringify(JSON.stringify(real).slice(1, -1)).slice(1, -1),
        ]) {
          assert.equal(scrub(`\u0001${form}\u0001`), `\u0001${fake}\u0001`, form);
        }
        for (const encoding of ['base64', 'base64url'] as const) {
          const whole = Buffer.concat([Buffer.from(before), Buffer.from(real), Buffer.from(after)]);
          const decoded = Buffer.from(scrub(whole.toString(encoding)), encoding);
          assert.ok(!decoded.includes(real), 'the value is still there');
          // The first and the last byte share their bits with their neighbours.
          assert.ok(decoded.includes(fake.slice(1, -1)), decoded.toString('latin1'));
          assert.ok(decoded.subarray(0, Buffer.byteLength(before)).equals(Buffer.from(before)));
          assert.ok(decoded.subarray(decoded.length - Buffer.byteLength(after)).equals(Buffer.from(after)));
        }
      },
    ),
    { numRuns: 500 },
  );
});

test('a hundred patterns with one beginning cost what one costs', () => {
  const patterns = Array.from({ length: 100 }, (_, at) => `sk-ant-api03-${String(at).padStart(40, '0')}`);
  const matcher = matcherOf(patterns);
  const text = Buffer.from(`${'sk-ant-api03-'.repeat(10_000)}${patterns[57]}`);
  assert.deepEqual(matcher.find(text, 0, true), {
    kind: 'match',
    at: 130_000,
    length: 53,
    meaning: patterns[57],
  });
});
