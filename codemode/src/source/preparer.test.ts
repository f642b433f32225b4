/** Programs that are made to be read slowly, or to break what reads them. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { CodemodeError } from '../errors.ts';
import { Preparer } from './preparer.ts';

const options = { language: 'auto', codeBytes: 262_144 } as const;
const typed = 'const a: number = 1';
const stripped = 'async () => {\nconst a         = 1\n}';

function isTimeout(failure: unknown): boolean {
  return failure instanceof CodemodeError && failure.kind === 'timeout';
}

const slow: readonly (readonly [string, string])[] = [
  ['types nested in parentheses', `const x: number = ${'<T>('.repeat(30)}`],
  ['groups of one name', `return /${'(?<a>)|(|'.repeat(4000)}${')'.repeat(4000)}/`],
  ['blocks in blocks', `${'{'.repeat(2000)}${'var x;'.repeat(40_000)}${'}'.repeat(2000)}`],
];
for (const [what, code] of slow) {
  it(`Preparer.prepare() ends a program that takes for ever to be read: ${what}`, async () => {
    const preparer = new Preparer(500);
    try {
      await assert.rejects(preparer.prepare(code, options), isTimeout);
    } finally {
      await preparer.dispose();
    }
  });
}

it('Preparer.prepare() reads the next program while one takes all its time', async () => {
  const preparer = new Preparer();
  try {
    const hopeless = assert.rejects(preparer.prepare(slow[0]?.[1] ?? '', options), isTimeout);
    assert.equal((await preparer.prepare(typed, options)).text, stripped);
    await hopeless;
  } finally {
    await preparer.dispose();
  }
});

it('Preparer.prepare() strips types after a program at which the stripper ended', async () => {
  const preparer = new Preparer();
  try {
    await assert.rejects(
      preparer.prepare('('.repeat(100_000), { ...options, language: 'typescript' }),
      CodemodeError,
    );
    assert.equal((await preparer.prepare(typed, options)).text, stripped);
  } finally {
    await preparer.dispose();
  }
});

it('Preparer.prepare() unwraps a fence of blanks at once', async () => {
  const preparer = new Preparer();
  try {
    await assert.rejects(preparer.prepare(`\`\`\`${' '.repeat(250_000)}`, options), CodemodeError);
    const { text } = await preparer.prepare(`\`\`\`js\n${'\n'.repeat(200_000)}return 1\n\`\`\``, options);
    assert.match(text, /return 1\n}$/);
  } finally {
    await preparer.dispose();
  }
});

it('Preparer.prepare() leaves expressions that take long to be read to its thread', async () => {
  // Its time is over before it can answer; what is read here has no such time.
  const preparer = new Preparer(1);
  try {
    for (const expression of [
      `/[${'\\p{RGI_Emoji}'.repeat(130)}]/vi`,
      `/${'[^\\P{L}]'.repeat(200)}/u`,
      `/[${'\\w'.repeat(900)}]/iu`,
    ])
      await assert.rejects(preparer.prepare(`return ${expression}`, options), isTimeout);
    const { text } = await preparer.prepare('return /[a-z]+/gu.test("C:/p/u")', options);
    assert.match(text, /\/\[a-z\]\+\/gu/);
  } finally {
    await preparer.dispose();
  }
});
