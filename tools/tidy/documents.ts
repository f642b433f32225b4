/**
 * Checks on documents: one title each, links that resolve, promises that name a test, error codes that are
 * documented, and no word that only means something at one workplace.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { type Findings, root, type SourceFile } from './tree.ts';

function withoutCode(text: string): string {
  return text.replaceAll(/```[\s\S]*?```/g, '').replaceAll(/`[^`\n]*`/g, '');
}

export function checkTitles(documents: readonly SourceFile[]): Findings {
  return documents
    .filter((document) => (withoutCode(document.text).match(/^# /gm) ?? []).length !== 1)
    .map((document) => `${document.path}: needs exactly one title`);
}

export function checkLinks(documents: readonly SourceFile[], exists = existsSync): Findings {
  const findings: string[] = [];
  for (const document of documents) {
    for (const [, link = ''] of withoutCode(document.text).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:|^#/.test(link)) continue;
      const target = path.join(root, path.dirname(document.path), link.split('#')[0] ?? '');
      if (!exists(target)) findings.push(`${document.path}: link to ${link} leads nowhere`);
    }
  }
  return findings;
}

/** What stands in backticks and in blocks: what a reader copies. */
function codeOf(text: string): readonly string[] {
  const blocks = [...text.matchAll(/```[^\n]*\n([\s\S]*?)```/g)].map(([, block = '']) => block);
  const spans = [...text.replaceAll(/```[\s\S]*?```/g, '').matchAll(/`([^`\n]+)`/g)].map(
    ([, span = '']) => span,
  );
  return [...blocks.flatMap((block) => block.split('\n')), ...spans];
}

const folders = 'bench|cli|codemode|contract|docs|egress|examples|host|images|native|packaging|tests|tools';
const pathPattern = new RegExp(
  `^(?:(?:${folders})/[\\w./*{},-]*|[\\w-]+(?:\\.test)?\\.[tc]s|[\\w-]+\\.[ch])$`,
);

/**
 * A path from the root is there (also as a pattern); a source's bare name is the end of some path.
 * What git does not track, `native/build` say, is not the documents' subject.
 */
export function checkPaths(documents: readonly SourceFile[], paths: readonly string[]): Findings {
  const findings: string[] = [];
  for (const document of documents) {
    for (const word of codeOf(document.text).flatMap((code) => code.split(/\s+/))) {
      if (!pathPattern.test(word) || word.startsWith('native/build')) continue;
      const pattern = word.replace(/\/$/, '');
      const isThere = paths.some(
        (one) =>
          one === pattern ||
          one.startsWith(`${pattern}/`) ||
          (pattern.includes('/')
            ? path.matchesGlob(one, pattern) || path.matchesGlob(one, `${pattern}/**`)
            : one.endsWith(`/${pattern}`)),
      );
      if (!isThere) findings.push(`${document.path}: there is no ${word}`);
    }
  }
  return findings;
}

export interface KnownCommand {
  /** One or two words. */
  readonly name: string;
  readonly flags: readonly string[];
}

/** Every `squash …` that a reader could type names a command that is there, and options that it has. */
export function checkCommands(documents: readonly SourceFile[], known: readonly KnownCommand[]): Findings {
  const findings: string[] = [];
  for (const document of documents) {
    for (const code of codeOf(document.text)) {
      for (const [line, first = '', second = ''] of code.matchAll(
        /(?<![\w.-]|from )squash ([a-z][\w-]*)(?: ([a-z][\w-]*))?[^|;&\n]*/g,
      )) {
        const command =
          known.find(({ name }) => name === `${first} ${second}`) ?? known.find(({ name }) => name === first);
        if (command === undefined) {
          if (!known.some(({ name }) => name.startsWith(`${first} `)))
            findings.push(`${document.path}: there is no command "${line}"`);
          continue;
        }
        for (const [, flag = ''] of (line.split(' -- ')[0] ?? '').matchAll(/(?<=[\s[(])--([a-z][a-z-]*)/g)) {
          if (!command.flags.includes(flag))
            findings.push(`${document.path}: "${line}" has no option --${flag}`);
        }
      }
    }
  }
  return findings;
}

/** Each promise of SPECIFICATION.md is a table row `| P-… | sentence | test file |`, with a number of its own. */
export function checkPromises(
  specification: string,
  readTest: (name: string) => string | undefined,
): Findings {
  const findings: string[] = [];
  const seen = new Set<string>();
  for (const line of specification.split('\n')) {
    const [, id, , tests] = line.split('|').map((cell) => cell.trim());
    if (id === undefined || !/^[A-Z]+-\d+$/.test(id)) continue;
    if (seen.has(id)) findings.push(`${id}: is the number of two promises`);
    seen.add(id);
    const named = [...(tests ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
    if (named.length === 0) findings.push(`${id}: names no test`);
    for (const name of named) {
      if (readTest(name) === undefined) findings.push(`${id}: its test ${name} does not exist`);
    }
  }
  return findings;
}

/**
 * Each row of the table of attacks is `| attack | verdict | `test file`: title |`, and the file has a test of that title.
 */
export function checkAttacks(
  document: string,
  readTest: (name: string) => string | undefined,
): { readonly rows: number; readonly findings: Findings } {
  const section = document.split('\n## Attacks\n')[1]?.split('\n## ')[0] ?? '';
  const findings: string[] = [];
  const rows = section.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| attack |'));
  for (const line of rows) {
    const [, attack = '', , test = ''] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    const [, file, title] = /^`([^`]+)`: (.+)$/.exec(test) ?? [];
    const text = file === undefined ? undefined : readTest(file);
    const calls = ['test', 'it'].map((call) => `${call}('${title}'`);
    if (title === undefined || !calls.some((call) => text?.includes(call) === true)) {
      findings.push(`"${attack}": no test is called "${title ?? test}"`);
    }
  }
  return { rows: rows.length, findings };
}

/**
 * Each row ends with the tests that show it, `[name](file) “title”, “title”`: the file holds the titles. One without a title is meant as a whole.
 */
export function checkShown(
  document: string,
  readTest: (link: string) => string | undefined,
): { readonly rows: number; readonly findings: Findings } {
  const findings: string[] = [];
  const rows = document.split('\n').filter((line) => line.startsWith('| ') && !line.endsWith(' shown by |'));
  for (const line of rows) {
    const [, rule = '', , shown = ''] = line.split('|').map((cell) => cell.trim());
    const tests = [...shown.matchAll(/\]\(([^)]+\.test\.ts)\)((?: ?“[^”]+”,?)*)/g)];
    if (tests.length === 0) findings.push(`"${rule}": names no test`);
    for (const [, link = '', titles = ''] of tests) {
      const text = readTest(link);
      if (text === undefined) findings.push(`"${rule}": there is no ${link}`);
      for (const [, title = ''] of titles.matchAll(/“([^”]+)”/g))
        if (text?.includes(title) !== true) findings.push(`"${rule}": ${link} has no "${title}"`);
    }
  }
  return { rows: rows.length, findings };
}

/** Every attempt stands in the table of attempts once, and every row that makes a claim names attempts that exist. */
export function checkAttempts(document: string, ids: readonly string[]): Findings {
  const section = document.split('\n## Attempts\n')[1]?.split('\n## ')[0] ?? '';
  const findings: string[] = [];
  const named = new Map<string, number>();
  for (const line of section.split('\n')) {
    const [, attack = '', verdict = '', tests = ''] = line.split('|').map((cell) => cell.trim());
    const isRow = attack !== '' && attack !== 'attack' && !/^(-+|\*\*.*\*\*)$/.test(attack);
    if (!isRow) continue;
    if (verdict === '') findings.push(`"${attack}": has no verdict`);
    const found = [...tests.matchAll(/`([^`]+)`/g)].map(([, id = '']) => id);
    if (found.length === 0) findings.push(`"${attack}": names no attempt`);
    for (const id of found) {
      named.set(id, (named.get(id) ?? 0) + 1);
      if (!ids.includes(id)) findings.push(`"${attack}": there is no attempt "${id}"`);
    }
  }
  for (const id of ids)
    if (named.get(id) !== 1) findings.push(`attempt "${id}" has ${named.get(id) ?? 0} rows`);
  return findings;
}

/** deps.txt has a line for each package that a manifest asks for, and no other. Such a line begins with the package's name, prose with a capital. */
export function checkDependencies(reasons: string, manifests: readonly SourceFile[]): Findings {
  const explained = new Set([...reasons.matchAll(/^(@?[a-z][\w./-]*) +\S/gm)].map(([, name = '']) => name));
  const asked = manifests.flatMap(({ text }) => {
    const manifest = JSON.parse(text) as Readonly<
      Record<string, Readonly<Record<string, string>> | undefined>
    >;
    return ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'].flatMap((kind) =>
      Object.keys(manifest[kind] ?? {}),
    );
  });
  const foreign = new Set(asked.filter((name) => !name.startsWith('@squash/')));
  return [
    ...[...foreign].filter((name) => !explained.has(name)).map((name) => `deps.txt says nothing of ${name}`),
    ...[...explained]
      .filter((name) => !foreign.has(name))
      .map((name) => `deps.txt explains ${name}, which nothing asks for`),
  ];
}

export function checkWords(sources: readonly SourceFile[], banned: readonly RegExp[]): Findings {
  const findings: string[] = [];
  for (const source of sources) {
    for (const [index, line] of source.text.split('\n').entries()) {
      for (const word of banned)
        if (word.test(line)) findings.push(`${source.path}:${index + 1}: says ${word.source}`);
    }
  }
  return findings;
}
