/**
 * Checks on sources that no linter makes: header comments, the things only one place may do, C's banned calls,
 * and tables (errors, limits) whose every row is used.
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
