/** What is a whole cell and what has more lines. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isIncomplete } from './incomplete.ts';

describe('isIncomplete', () => {
  it('lets Python go on in brackets, in long strings, behind a backslash, and in a block until an empty line', () => {
    const open = [
      'f(1,',
      'x = {"a": [1,\n\n2]',
      '"""one\n"two"\n',
      "x = rf'''a\\'''",
      'x = 1 + \\',
      'def f():',
      'def f(\n  a):\n    return a',
      'if x: # why',
      '@cache',
      '@cache\ndef f():',
      'def f():\n  g(\n)',
      'if x: y()\nelse:',
      '%%timeit\nx',
      'for a in "#:":\n    print("""\n\n""")',
    ];
    for (const text of open) assert.equal(isIncomplete('python', text), true, text);
    const whole = [
      '',
      'x = 1',
      'x = "a:"',
      'x = ":" # (',
      'x = {"a":\n1}',
      "print('it\\'s (')",
      ' x = 1',
      'if x: y()',
      'def f():\n    return 1\nf()',
      'def f():\n    return 1\n',
      'x = """\n(\n"""',
      ')',
      'x = "half',
    ];
    for (const text of whole) assert.equal(isIncomplete('python', text), false, text);
  });

  it('lets scripts go on in brackets, templates, comments and behind an operator', () => {
    const open = [
      'f(1,',
      'const a = [',
      'function f() {\n\n',
      '`a ${b} {',
      '`a ${b',
      '`a ${`b`} \\`',
      '/* { */ /*',
      'a =',
      'x =>',
      'a\n  .',
      'if (/[(/]"/.test(a)) {',
      'a = 1 /',
    ];
    for (const text of open) assert.equal(isIncomplete('typescript', text), true, text);
    const whole = [
      '',
      'a',
      'a++',
      'let a: Array<number>',
      'a!',
      'f(`a ${b + `}`} {`)',
      "'{' // (",
      '"it\\"s ("',
      '/[(\\/"]{/g.test(a)',
      'a / b; c /* { */',
      '{ a }\n/["(]/.exec(b)',
      '}',
      'html`<b>${n}</b>`',
    ];
    for (const text of whole) assert.equal(isIncomplete('typescript', text), false, text);
  });
});
