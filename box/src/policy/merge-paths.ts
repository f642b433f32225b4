/**
 * One level for each path, of the rules of all layers. Pure.
 *
 * Within a layer the longest match wins. Across layers what closes a path closes it, whichever layer says so, and the strictest
 * of several; only where none does do grants count, the longest match of all. So a file can take back its own
 * `~/x: hidden` for `~/x/y`, and no other file can.
 *
 * What a newcomer would get wrong: `hidden` for `/`, for the home directory and what stands between is what holds anyway,
 * to be re-opened by name. Such a rule closes nothing that another layer opens by a longer path; nor do the defaults' own.
 */
import { isWithin } from '@squash/policy/paths/levels';
import { isCacheSetting } from './bundles.ts';
import type { Grounds } from './expand.ts';
import type { PathLayer, PathRule, Source } from './layers.ts';
import type { PathLevel } from '@squash/contract/path-levels';
import { compareLevels, isClosed } from './levels.ts';
import { longestMatch } from './paths.ts';

/** A rule that holds, about its path and what lies below it. */
export interface ResolvedPath {
  readonly level: PathLevel;
  readonly text: string | undefined;
  readonly written: string;
  readonly source: Source;
}

/** A rule that does not count, or not as it is written. */
export interface Dropped {
  readonly rule: string;
  readonly source: Source;
  readonly why: string;
}

export interface MergedPaths {
  /** By path, parents before children. */
  readonly paths: ReadonlyMap<string, ResolvedPath>;
  readonly dropped: readonly Dropped[];
}

interface Counted {
  readonly origin: PathLayer['origin'];
  readonly rules: ReadonlyMap<string, PathRule>;
}

/** @param forbidsRw the managed file's word: what other layers write through is copy-on-write */
export function mergePaths(layers: readonly PathLayer[], grounds: Grounds, forbidsRw: boolean): MergedPaths {
  const dropped: Dropped[] = [];
  const drop = ({ written, level, source }: PathRule, why: string): void => {
    dropped.push({ rule: `fs ${JSON.stringify(written)}: ${level}`, source, why });
  };
  const counted = layers.map(
    (layer): Counted => ({
      origin: layer.origin,
      rules: byPath(
        layer.rules.flatMap((rule) => {
          const clamped = forbidsRw && rule.level === 'rw' && layer.origin !== 'managed';
          if (clamped) drop(rule, 'the managed policy forbids rw: it is cow');
          const wanted: PathRule = clamped ? { ...rule, level: 'cow' } : rule;
          return layer.origin === 'project'
            ? projectRule(wanted, { isTrusted: layer.isTrusted, repository: grounds.repository }, drop)
            : [wanted];
        }),
      ),
    }),
  );
  const paths = [...new Set(counted.flatMap(({ rules }) => [...rules.keys()]))].sort();
  const resolved = paths.map((path): readonly [string, ResolvedPath] => {
    const { level, text, written, source } = ruleAt(path, counted, grounds);
    return [path, { level, text, written, source }];
  });
  const winners = new Map(resolved);
  for (const { origin, rules } of counted) {
    for (const [path, rule] of rules) {
      const won = winners.get(path);
      // A default that a file closes is no surprise to whoever wrote the file.
      if (origin !== 'default' && won !== undefined && !isClosed(rule.level) && isClosed(won.level))
        drop(rule, `${won.level} by ${JSON.stringify(won.written)} of ${won.source.file}`);
    }
  }
  return { paths: winners, dropped };
}

/** What of a project's rule counts: what closes always does, what opens after trust, and some of it never. */
function projectRule(
  rule: PathRule,
  { isTrusted, repository }: { readonly isTrusted: boolean; readonly repository: string },
  drop: (rule: PathRule, why: string) => void,
): readonly PathRule[] {
  const isOwn = isWithin(rule.path, repository);
  // `deny` shows whether there is such a file, and the text of a mask is the project's: elsewhere than in the repository it
  // would be a forged file.
  if (isClosed(rule.level)) {
    const isForged = rule.level === 'mask' && !isOwn && !isCacheSetting(rule.written, rule.text);
    const counts = isTrusted && !isForged;
    return [counts ? rule : { ...rule, level: 'hidden', text: undefined }];
  }
  if (!isTrusted) {
    drop(rule, 'the project’s policy is not trusted');
    return [];
  }
  if (rule.leavesRepository) {
    drop(rule, `a link leads it out of the repository, to ${rule.path}`);
    return [];
  }
  if (rule.level === 'rw' && !isOwn) {
    drop(rule, 'a project’s policy never opens a path outside the repository at rw');
    return [];
  }
  return [rule];
}

/** At one path the later part wins, then the path that is written over one that a pattern found, then the stricter. */
function byPath(rules: readonly PathRule[]): ReadonlyMap<string, PathRule> {
  const kept = new Map<string, PathRule>();
  for (const rule of rules) {
    const before = kept.get(rule.path);
    if (before === undefined || replaces(rule, before)) kept.set(rule.path, rule);
  }
  return kept;
}

function replaces(rule: PathRule, before: PathRule): boolean {
  if (rule.source.file !== before.source.file) return true;
  if (rule.isImplied !== before.isImplied) return before.isImplied;
  if (rule.isImplied && fixedLength(rule) !== fixedLength(before))
    return fixedLength(rule) > fixedLength(before);
  return compareLevels(rule.level, before.level) < 0;
}

/** How much of a pattern is literal, its beginning first. */
function fixedLength({ written }: PathRule): number {
  const first = written.search(/[*?]/);
  return (first < 0 ? written.length : first) * 1_000 + written.replaceAll(/[*?]/g, '').length;
}

function ruleAt(path: string, layers: readonly Counted[], grounds: Grounds): PathRule {
  const matches = layers.flatMap(({ origin, rules }) => {
    const match = longestMatch(rules, path);
    return match === undefined ? [] : [{ origin, path: match.path, rule: match.rule }];
  });
  const closing = matches.filter(
    ({ origin, path: at, rule }) =>
      origin !== 'default' && isClosed(rule.level) && !isRestating(at, rule, grounds),
  );
  const [first, ...others] = closing;
  if (first !== undefined) return others.reduce(strictest, first).rule;
  const longest = Math.max(...matches.map(({ path: at }) => at.length));
  const candidates = matches.filter(({ path: at }) => at.length === longest);
  return winner(candidates).rule;
}

interface Candidate {
  readonly origin: PathLayer['origin'];
  readonly path: string;
  readonly rule: PathRule;
}

function strictest(one: Candidate, other: Candidate): Candidate {
  return compareLevels(other.rule.level, one.rule.level) < 0 ? other : one;
}

/**
 * Of grants of the same path: a default gives way to everything, the person's files and the project's to the stricter of
 * them, both to what he says on the command line, and that to the managed file where it is stricter.
 */
function winner(candidates: readonly Candidate[]): Candidate {
  const of = (...origins: readonly PathLayer['origin'][]): Candidate | undefined => {
    const [first, ...others] = candidates.filter(({ origin }) => origins.includes(origin));
    return first === undefined ? undefined : others.reduce(strictest, first);
  };
  const closed = candidates.find(({ origin, rule }) => origin !== 'default' && isClosed(rule.level));
  const own = closed ?? of('command line') ?? of('user', 'project');
  const said = [own, of('managed')].filter((each) => each !== undefined);
  const [first, ...others] = said.length === 0 ? candidates : said;
  // Precondition of the caller: there is one, because the path is a rule's own.
  if (first === undefined) throw new TypeError('a path without a rule');
  return others.reduce(strictest, first);
}

export function isRestating(path: string, { level }: Pick<PathRule, 'level'>, { home }: Grounds): boolean {
  return level === 'hidden' && isWithin(home, path);
}
