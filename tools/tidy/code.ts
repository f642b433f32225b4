/**
 * Checks on sources that no linter makes: header comments, the things only one place may do, C's banned calls,
 * tables (errors, limits) whose every row is used, and reasons to skip.
 */
import type { Findings, SourceFile } from './tree.ts';

/** A file says what it is for before it does anything. */
export function checkHeaders(sources: readonly SourceFile[]): Findings {
  return sources
    .filter((source) => !/^(#![^\n]*\n)?\s*(\/\*|\/\/|#)/.test(source.text))
    .map((source) => `${source.path}: begins without a comment that says what it is for`);
}

export interface OnlyIn {
  readonly pattern: RegExp;
  /** Prefixes of files that may. */
  readonly allowed: readonly string[];
  readonly why: string;
}

export function checkOnlyIn(sources: readonly SourceFile[], rules: readonly OnlyIn[]): Findings {
  const findings: string[] = [];
  for (const source of sources) {
    for (const rule of rules) {
      if (rule.allowed.some((prefix) => source.path.startsWith(prefix))) continue;
      for (const [index, line] of source.text.split('\n').entries()) {
        if (/^\s*(\/\/|\*|\/\*)/.test(line) || !rule.pattern.test(line)) continue;
        findings.push(`${source.path}:${index + 1}: ${rule.why}`);
      }
    }
  }
  return findings;
}

/** Every key of a table stands, as a word, in at least one other file. */
export function checkUsed(table: string, keys: readonly string[], sources: readonly SourceFile[]): Findings {
  const texts = sources.filter((source) => source.path !== table).map((source) => source.text);
  return keys
    .filter((key) => !texts.some((text) => new RegExp(`\\b${key}\\b`).test(text)))
    .map((key) => `${table}: ${key} is used nowhere`);
}

export function checkLengths(sources: readonly SourceFile[], linesMax: number): Findings {
  return sources
    .filter((source) => source.text.split('\n').length - 1 > linesMax)
    .map((source) => `${source.path}: ${source.text.split('\n').length - 1} lines, ${linesMax} at most`);
}

/**
 * The reasons to skip that a test file, or what it uses, has as text: handed to `skip`, or standing beside `false`. What runs inside a
 * launcher is counted as one test, whose parts skip unseen.
 */
export function skipReasons({ path, text }: SourceFile): readonly string[] {
  if (!/\.test\.ts$|^tests\//.test(path) || text.includes('insideLauncher(')) return [];
  const before = /(?:\bskip\(|\bskip: |\? false\s*: |(?:\)|!== 0) && )(['"`])(.*?)\1/gs;
  const between = /\? (['"`])([^'"`]*)\1\s*: false\b/g;
  return [before, between].flatMap((shape) => [...text.matchAll(shape)].map((match) => match[2] ?? ''));
}
