/** What is taken out of a sandbox's text, and what is written out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cleanFile, cleanLine, cleanOutput } from './clean.ts';

test('cleanOutput() shows what a terminal would in the end', () => {
  for (const [given, shown] of [
    ['\u001b[1;31mred\u001b[0m', 'red'],
    ['\u001b]8;;http://a\u0007link\u001b]8;;\u001b\\', 'link'],
    ['\u001b]0;no end\nnext', '\nnext'],
    ['10%\r50%\r100%\r\nok\r\n', '100%\nok\n'],
    ['b\bbo\bold', 'bold'],
    ['a\u0000\u0007\u009b31mb\u007f', 'ab'],
    ['left\u202eright\u{e0041}', String.raw`left\u{202e}right\u{e0041}`],
    ['tab\tand\nline', 'tab\tand\nline'],
    ['👩‍💻 é ⚠\ufe0f', '👩‍💻 é ⚠\ufe0f'],
    ['⚠\ufe0f\ufe01\u3164b\ufe0f', String.raw`⚠${'\ufe0f'}\u{fe01}\u{3164}b\u{fe0f}`],
  ] as const)
    assert.equal(cleanOutput(given), shown);
});

test('cleanFile() and cleanLine() take nothing out', () => {
  assert.equal(cleanFile('a\u001b[31m\r\nb\r'), 'a\\u{1b}[31m\nb\\u{d}');
  assert.equal(cleanLine('a\nb\tc\u0000'), String.raw`a\nb c\u{0}`);
});

test('no text leaves a control character or half a character, and none takes long', () => {
  const parts = fc.constantFrom(
    '\u001b',
    '[',
    ']',
    '\u001b]',
    '\u001bP',
    '\u009b',
    '\r',
    '\b',
    '\n',
    'm',
    '0;',
    '\ud800',
    'x',
    '\u202e',
  );
  fc.assert(
    fc.property(fc.array(parts, { maxLength: 200 }), (pieces) => {
      for (const shown of [cleanOutput(pieces.join('')), cleanFile(pieces.join(''))]) {
        assert.doesNotMatch(shown, /[^\P{Cc}\n\t]|[\u202e]/u);
        assert.ok(shown.isWellFormed());
      }
    }),
  );
  const begun = performance.now();
  for (const piece of ['\u001b]', '\u001b[0', 'x\b', 'x\r', '\u001bP\u001b'])
    cleanOutput(piece.repeat(200_000));
  assert.ok(performance.now() - begun < 5_000);
});
