/**
 * Patterns of paths: `*` and `?` within a name, `**` for any number of directories. A name that begins with a dot is matched
 * as any other: rules that hide are the reason for patterns.
 *
 * Names are compared without regular expressions: a project's file must not be able to write one that takes years.
 */
import { PolicyProblem } from '../policy-problem.ts';

export function isPattern(text: string): boolean {
  return /[*?]/.test(text);
}

/** Of what is no rule's word but a directory's name: in a policy it would stand for others as well. @throws PolicyProblem */
export function refusePattern(path: string): void {
  if (isPattern(path))
    throw new PolicyProblem([
      `${JSON.stringify(path)} has "*" or "?" in its name, and in a policy it would be a pattern, which other names fit as well: give it another name`,
    ]);
}

/** The directory that a pattern begins in, and the names below it. Precondition: absolute. */
export function splitPattern(pattern: string): {
  readonly prefix: string;
  readonly names: readonly string[];
} {
  const all = pattern.slice(1).split('/');
  const first = all.findIndex(isPattern);
  return { prefix: `/${all.slice(0, first).join('/')}`, names: all.slice(first) };
}

/** Linear in the one times the other: at a mismatch only the last star takes one character more. */
export function nameMatches(pattern: string, name: string): boolean {
  let [at, inName, star, begun] = [0, 0, -1, 0];
  while (inName < name.length) {
    const letter = pattern[at];
    if (letter === '*') {
      star = at;
      begun = inName;
      at += 1;
    } else if (letter === '?' || letter === name[inName]) {
      at += 1;
      inName += 1;
    } else if (star >= 0) {
      begun += 1;
      inName = begun;
      at = star + 1;
    } else return false;
  }
  while (pattern[at] === '*') at += 1;
  return at === pattern.length;
}

/** Positions in the pattern's names at which the names of a directory's entries are compared. */
export type Positions = readonly number[];

/** `**` also stands for no directory: what follows it is compared at the same place. */
export function positionsFrom(names: readonly string[], start: Iterable<number>): Positions {
  const positions = new Set<number>();
  for (const first of start) {
    for (let at = first; at < names.length; at += 1) {
      positions.add(at);
      if (names[at] !== '**') break;
    }
  }
  return [...positions];
}

/** What an entry is to the pattern, and where the comparison goes on below it. */
export function step(
  names: readonly string[],
  positions: Positions,
  name: string,
): { readonly isMatch: boolean; readonly below: Positions } {
  const next = new Set<number>();
  let isMatch = false;
  for (const at of positions) {
    const wanted = names[at] ?? '';
    const isLast = at === names.length - 1;
    if (wanted === '**') {
      next.add(at);
      // `a/**` is everything below `a`.
      if (isLast) isMatch = true;
    } else if (nameMatches(wanted, name)) {
      if (isLast) isMatch = true;
      else next.add(at + 1);
    }
  }
  return { isMatch, below: positionsFrom(names, next) };
}
