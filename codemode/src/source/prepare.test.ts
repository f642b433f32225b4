/** The forms of programs that models send, and what none of them can smuggle in. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { CodemodeError } from '../errors.ts';
import { nodesOf, parseBody } from './parse.ts';
import { prepare } from './prepare.ts';

const options = { language: 'auto', codeBytes: 262_144 } as const;
const text = (code: string) => prepare(code, options).text;

const forms: readonly (readonly [string, string])[] = [
  ['', 'async () => {}'],
  ['  \n', 'async () => {}'],
  ['async () => 1', 'async () => 1'],
  ['(async () => 1)', 'async () => 1'],
  ['() => 1;', '() => 1'],
  ['(function () { return 1 })', 'function () { return 1 }'],
  ['return 1', 'async () => {\nreturn 1\n}'],
  ['const a = 1;', 'async () => {\nconst a = 1;\n}'],
  ['1 + 1', 'async () => {\nreturn (1 + 1\n)\n}'],
  ['f(); g()', 'async () => {\nf(); return (g()\n)\n}'],
  ['(a, b);', 'async () => {\nreturn ((a, b\n))\n}'],
  ['(async () => 1)()', 'async () => {\nreturn ((async () => 1)()\n)\n}'],
  ['function f() {}', 'async () => {\nfunction f() {}\nreturn f();\n}'],
  ['function f() {}\nf()', 'async () => {\nfunction f() {}\nreturn (f()\n)\n}'],
  ['export default async () => 1', 'async () => 1'],
  ['export default 5', 'async () => {\nreturn (5\n)\n}'],
  ['export default function () {}', 'async () => {\nreturn (function () {})();\n}'],
  ['export default class {}', 'async () => {\nreturn (class {});\n}'],
  ['```js\n() => 1\n```', '() => 1'],
  ['```\n() => 1\n```\n', '() => 1'],
  ['```TypeScript\n(): number => 1\n```', '()         => 1'],
  ['if (a) { b }', 'async () => {\nif (a) { b }\n}'],
];
for (const [code, expected] of forms) {
  it(`prepare(${JSON.stringify(code)}) gives one function`, () => assert.equal(text(code), expected));
}

it('prepare() counts the lines that stand before the code', () => {
  assert.equal(prepare('return 1', options).linesBefore, 1);
  assert.equal(prepare('async () => 1', options).linesBefore, 0);
  assert.equal(prepare('```js\nreturn 1\n```', options).linesBefore, 0);
  assert.equal(prepare('\n\nasync () => 1', options).linesBefore, -2);
});

it('prepare() leaves a fence within prose alone, and refuses it', () => {
  assert.throws(() => text('Here it is:\n```js\n1\n```'), CodemodeError);
});

it('prepare() does not strip what is JavaScript already', () => {
  assert.equal(text('a < b > (c)'), 'async () => {\nreturn (a < b > (c)\n)\n}');
});

const refused: readonly (readonly [string, RegExp])[] = [
  ['const a: number = 1;\nconst b: = 3;\nreturn a', /^Unexpected token .*\(2:9\)$/],
  ['const a = ;\nconst b: number = 1', /^Unexpected token \(1:10\)$/],
  ['let a: string\nenum A { B }', /enum is not supported .*; write it without enum.* \(2:0\)$/],
  ['const x = <string>"a"; return x', /angle-bracket .* \(1:10\)$/],
  ['return (', /^Unexpected token \(1:8\)$/],
  ['})(); (() => {', /^Unexpected token \(1:0\)$/],
  ['interface A { b: string }\nconst a: A = {;', /\(2:14\)$/],
  ['import fs from "fs"', /^import and export are not available: use the tools \(1:0\)$/],
  [
    'const a: number = 1\n import fs from "fs"',
    /^import and export are not available: use the tools \(2:1\)$/,
  ],
  ['export const a = 1;', /^import and export are not available/],
  ['export default 1; export const a = 1', /^import and export are not available/],
];
for (const [code, message] of refused) {
  it(`prepare(${JSON.stringify(code)}) says what is wrong, and where`, () => {
    assert.throws(() => text(code), { kind: 'syntax', message });
  });
}

it('prepare() of any text is one function expression or a syntax error', () => {
  const piece = fc.constantFrom(
    '}',
    '{',
    ')',
    '(',
    '})',
    '();',
    '\n',
    '//',
    '/*',
    '*/',
    '`',
    '${',
    'async () => {',
    'return 1',
    '"',
    "'",
    ';',
    ',',
    '=>',
    '<!--',
    '-->',
    'import("x")',
    'f',
    '\u2028',
    '\\',
    'x = 1',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      let prepared: string;
      try {
        prepared = text(pieces.join(' '));
      } catch (failure) {
        assert.ok(failure instanceof CodemodeError, String(failure));
        return;
      }
      // What an engine evaluates, read again from nothing: one statement, a function, and no way out of its parentheses.
      const { body } = parseBody(`(${prepared}\n)`);
      assert.equal(body.length, 1);
      const [statement] = body;
      assert.ok(statement?.type === 'ExpressionStatement' && /Function/.test(statement.expression.type));
      assert.ok(![...nodesOf(statement)].some((node) => node.type === 'ImportExpression'));
    }),
    { numRuns: 3000 },
  );
});
