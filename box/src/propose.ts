/**
 * The smallest rules under which a box would have got what it was refused. It grants nothing: a person reads it, and gives it as a policy file.
 *
 * What a newcomer would get wrong: a program asks for what it wants, not for what it should have. What holds keys, the home itself
 * and what is closed on purpose are told, and never proposed.
 */
import { dirname } from 'node:path';
import { isWithin, winningRule } from '@squash/policy/paths/levels';
import { isClosed } from './closed.ts';
import type { Refusal, Rules } from './refused-paths.ts';

export interface Proposal {
  readonly fs: Readonly<Record<string, 'ro' | 'cow'>>;
  readonly leftOut: readonly { readonly what: string; readonly why: string }[];
}

interface Ground {
  readonly rules: Rules;
  /** Canonical. */
  readonly home: string;
}

/** So many of one directory stand for the directory. */
const siblingsMin = 4;

/** As a policy file takes them. */
const ruleCharsMax = 500;

export function propose(refusals: readonly Refusal[], ground: Ground): Proposal {
  const wanted = new Map<string, 'ro' | 'cow'>();
  const leftOut = new Map<string, string>();
  const looked = new Set<string>();
  for (const refusal of refusals) {
    const { place, needs, intent, kind } = refusal;
    const why = whyNever(refusal, ground);
    if (why !== undefined) leftOut.set(place, why);
    else if (intent === 'look' && kind === 'directory') looked.add(place);
    else if (wanted.get(place) !== 'cow') wanted.set(place, needs);
  }
  const rules = withoutCovered(gathered(wanted, ground));
  const kept = [...rules].slice(0, proposedMax);
  for (const [place] of [...rules].slice(proposedMax))
    leftOut.set(place, `${proposedMax} are proposed: name a directory above it`);
  for (const place of looked)
    if (!isCovered(place, rules)) leftOut.set(place, 'it was only looked for, and is a directory');
  return {
    fs: Object.fromEntries(
      kept
        .map(([place, level]) => [shortened(place, ground.home), level] as const)
        .toSorted(([one], [other]) => (one < other ? -1 : 1)),
    ),
    leftOut: [...leftOut].map(([what, why]) => ({ what, why })),
  };
}

/** A box has 200 rules, its own included. */
const proposedMax = 100;

function whyNever({ place, kind, level }: Refusal, { rules, home }: Ground): string | undefined {
  if (isTooWide(place, home)) return 'it is the home directory, or above it';
  if (isClosed(place, home)) return 'keys and state of the system are kept there';
  if (kind === 'other')
    return 'it is no file and no directory: sockets and devices have options of their own';
  if (level === 'deny' || level === 'mask') return `a rule says "${level}"`;
  if (level === 'hidden' && isHiddenOnPurpose(place, { rules, home })) return 'a rule hides it';
  // A program may have made a file for this: `*` would open all that lies beside it.
  if (/[*?]/.test(place)) return 'its name would be a pattern in a policy file';
  if (/\p{C}/u.test(place) || place.length > ruleCharsMax) return 'a policy file can’t have its name';
  return undefined;
}

function isTooWide(place: string, home: string): boolean {
  return isWithin(home, place) || place === '/tmp' || place === '/var/tmp';
}

/** Every box hides the home and the temporary directories; whatever else is hidden by a rule somebody wanted so. */
function isHiddenOnPurpose(place: string, { rules, home }: Ground): boolean {
  const rule = winningRule(Object.fromEntries(rules), place);
  return rule !== undefined && ![home, '/tmp', '/var/tmp', '/'].includes(rule);
}

/** Many of one directory become the directory, as long as that may be proposed. */
function gathered(
  wanted: ReadonlyMap<string, 'ro' | 'cow'>,
  ground: Ground,
): ReadonlyMap<string, 'ro' | 'cow'> {
  const all = new Map(wanted);
  // Once: directories that came of it do not become the one above them.
  for (const [parent, names] of Map.groupBy(wanted.keys(), (place) => dirname(place))) {
    if (names.length < siblingsMin || !mayStandFor(parent, ground)) continue;
    const isWritten = [...names, parent].some((name) => wanted.get(name) === 'cow');
    for (const name of names) all.delete(name);
    all.set(parent, isWritten ? 'cow' : 'ro');
  }
  return all;
}

/** With it would come what is closed below it, and that stays closed: so it is not offered as one. */
function mayStandFor(parent: string, { rules, home }: Ground): boolean {
  const refusal = { place: parent, kind: 'directory', level: 'hidden' } as const;
  const isNever = whyNever({ ...refusal, asked: parent, intent: 'read', needs: 'ro' }, { rules, home });
  return isNever === undefined && dirname(parent) !== '/';
}

function withoutCovered(rules: ReadonlyMap<string, 'ro' | 'cow'>): ReadonlyMap<string, 'ro' | 'cow'> {
  return new Map([...rules].filter(([place, level]) => !isCovered(dirname(place), rules, level)));
}

/** By a rule for it or above it that gives as much. */
function isCovered(
  place: string,
  rules: ReadonlyMap<string, 'ro' | 'cow'>,
  level: 'ro' | 'cow' = 'ro',
): boolean {
  return [...rules].some(([above, has]) => isWithin(place, above) && (has === 'cow' || level === 'ro'));
}

function shortened(place: string, home: string): string {
  return isWithin(place, home) ? `~${place.slice(home.length)}` : place;
}
