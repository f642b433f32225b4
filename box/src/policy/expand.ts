/**
 * From the rules of files to rules about literal paths, as the API takes them: `~`, `.` and `$REPO` are put in, links are
 * resolved, patterns are held against the tree as it is now.
 *
 * What a newcomer would get wrong: a pattern says nothing of files that appear later, so each is reported as `start-time only`,
 * and one that hides and could not be finished within its bounds is an error. A literal path that is hidden holds whether
 * there is such a file or not.
 */
import { lstatSync, realpathSync } from 'node:fs';
import { isWithin } from '@squash/policy/paths/levels';
import { cachePaths, cacheSettings, type CacheMode, type CacheName } from './bundles.ts';
import type { PolicyFile } from './file-schema.ts';
import {
  type Layer,
  type Part,
  type PathLayer,
  type PathRule,
  type Source,
  sourceOf,
  sourceText,
  type Workdir,
} from './layers.ts';
import type { PathLevel } from '@squash/contract/path-levels';
import { isClosed as isClosedToAll } from '../closed.ts';
import { isClosed } from './levels.ts';
import { isPattern, type Positions, positionsFrom, splitPattern, step } from './pattern.ts';
import { joined, parentOf } from './paths.ts';
import { entriesOf } from '../host-paths.ts';
import { errnoOf } from '../policy-problem.ts';

/** Both absolute, without links. */
export interface Grounds {
  readonly home: string;
  readonly repository: string;
}

export const expandLimits = {
  /** Entries of directories that all patterns of a run look at together. */
  entriesMax: 300_000,
  timeMs: 3_000,
  /** Paths that one pattern stands for: a box has 200 rules. */
  matchesMax: 150,
} as const;

export interface Note {
  readonly kind: 'start-time only' | 'incomplete';
  /** A rule that would not hold: the run does not begin. */
  readonly isError: boolean;
  readonly written: string;
  readonly source: Source;
  readonly text: string;
}

export interface Expanded {
  readonly layers: readonly PathLayer[];
  readonly notes: readonly Note[];
}

interface Budget {
  entries: number;
  readonly endsMs: number;
}

type Bounds = { readonly [Name in keyof typeof expandLimits]: number };

/** What has no place in a box's root: they are its own. */
const ownTrees: readonly string[] = ['/proc', '/sys', '/dev', '/run'];
/** Private unless they are named by themselves. */
const notOfRoot: readonly string[] = [...ownTrees, '/tmp', '/lost+found'];

export function expandLayers(
  layers: readonly Layer[],
  grounds: Grounds,
  bounds: Bounds = expandLimits,
): Expanded {
  const notes: Note[] = [];
  const budget: Budget = { entries: bounds.entriesMax, endsMs: performance.now() + bounds.timeMs };
  const expanded = layers.map((layer): PathLayer => {
    const rules = layer.parts.flatMap((part) =>
      writtenRules(layer, part).flatMap((rule) =>
        // A grant that does not count needs no look at the tree.
        layer.isTrusted || isClosed(rule.level)
          ? expandRule(rule, { grounds, budget, bounds, notes })
          : [rule].map(asIgnored),
      ),
    );
    const workdirs = layer.parts.flatMap((part) => workdirsOf(layer, part, grounds));
    return { origin: layer.origin, isTrusted: layer.isTrusted, rules, workdirs };
  });
  return { layers: expanded, notes };
}

function workdirsOf(layer: Layer, part: Part, grounds: Grounds): readonly Workdir[] {
  const written = part.policy.workdir?.source;
  if (written === undefined) return [];
  const path = existing(absolutePath(written, grounds));
  return [{ path, written, source: sourceOf(layer, part, ['workdir']) }];
}

interface WrittenRule {
  readonly written: string;
  readonly level: PathLevel;
  readonly text: string | undefined;
  readonly source: Source;
  readonly isImplied: boolean;
}

/** Stands for a grant of a project that is not trusted: it is told, and nothing else. */
function asIgnored(rule: WrittenRule): PathRule {
  return { ...rule, path: rule.written, leavesRepository: false };
}

/** Of one part: `fs`, and what `workdir` and `caches` mean. */
function writtenRules(layer: Layer, part: Part): readonly WrittenRule[] {
  const { workdir, caches = {}, fs = {} }: PolicyFile = part.policy;
  const rule = (written: string, level: PathLevel, place: readonly string[]): WrittenRule => ({
    written,
    level,
    text: level === 'mask' ? '' : undefined,
    source: sourceOf(layer, part, place),
    isImplied: place[0] !== 'fs',
  });
  return [
    ...(workdir === undefined ? [] : [rule(workdir.source, workdir.mode, ['workdir'])]),
    ...Object.entries(caches).flatMap(([name, mode]) => {
      const place = ['caches', name];
      // A box that sees the directory around it, or another file, must not bring this machine's cache back.
      const level = ({ cow: 'cow', private: 'hidden' } as const satisfies Record<CacheMode, PathLevel>)[mode];
      return [
        ...cachePaths[name as CacheName].map((path) => rule(path, level, place)),
        ...Object.entries(cacheSettings[name as CacheName] ?? {}).map(([path, text]) => ({
          ...rule(path, 'mask', place),
          text,
        })),
      ];
    }),
    ...Object.entries(fs).map(([path, level]) =>
      typeof level === 'string'
        ? rule(path, level, ['fs', path])
        : { ...rule(path, 'mask', ['fs', path]), text: level.mask },
    ),
  ];
}

interface Work {
  readonly grounds: Grounds;
  readonly budget: Budget;
  readonly bounds: Bounds;
  readonly notes: Note[];
}

function expandRule(rule: WrittenRule, work: Work): readonly PathRule[] {
  const { repository } = work.grounds;
  const plain = absolutePath(rule.written, work.grounds);
  if (isPattern(plain)) return expandPattern(rule, plain, work);
  if (plain === '/' && !isClosed(rule.level)) return expandRoot(rule, work.grounds.home);
  const isOfRepository = isWithin(plain, repository);
  return literal(plain).map((path) => ({
    ...rule,
    path,
    leavesRepository: isOfRepository && !isWithin(path, repository),
  }));
}

/** As the file means it, links not resolved yet. */
export function absolutePath(written: string, { home, repository }: Grounds): string {
  const path = written.length > 1 ? written.replace(/\/$/, '') : written;
  if (path.startsWith('/')) return path;
  const [head = '', ...rest] = path.split('/');
  return rest.reduce(joined, head === '~' ? home : repository);
}

/**
 * The path without links on the way, and where it is a link itself also what it leads to: a rule about a link is meant for
 * what is seen through it.
 */
function literal(path: string): readonly string[] {
  if (path === '/') return [path];
  const own = joined(existing(parentOf(path)), path.slice(path.lastIndexOf('/') + 1));
  const target = existing(path);
  return own === target ? [own] : [own, target];
}

/** Resolves what of the path is there; names that are not there are plain names. */
export function existing(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path === '/' ? path : joined(existing(parentOf(path)), path.slice(path.lastIndexOf('/') + 1));
  }
}

/** `/` that is opened stands for what lies in it and is no box's to see by name: a box has a root of its own. */
function expandRoot(rule: WrittenRule, home: string): readonly PathRule[] {
  const names = entriesOf('/', expandLimits.entriesMax)?.map(({ name }) => joined('/', name)) ?? [];
  return names
    .filter((path) => !notOfRoot.includes(path) && !isClosedToAll(path, home))
    .flatMap(literal)
    .map((path) => ({ ...rule, path, isImplied: true, leavesRepository: false }));
}

function expandPattern(rule: WrittenRule, pattern: string, work: Work): readonly PathRule[] {
  const { prefix, names } = splitPattern(pattern);
  const { repository } = work.grounds;
  const start = existing(prefix);
  const isOfRepository = isWithin(prefix, repository);
  const { paths, unfinished } = walk(start, names, work);
  const note = (kind: Note['kind'], isError: boolean, text: string): void => {
    work.notes.push({ kind, isError, written: rule.written, source: rule.source, text });
  };
  const place = `${sourceText(rule.source)}: ${JSON.stringify(rule.written)}`;
  if (unfinished !== undefined) {
    note(
      'incomplete',
      isClosed(rule.level),
      `${place} could not be held against the whole tree: ${unfinished}${isClosed(rule.level) ? '; name the paths' : ''}`,
    );
  }
  note(
    'start-time only',
    false,
    `${place} is start-time only: it stands for ${paths.length} ${paths.length === 1 ? 'path that is' : 'paths that are'} there now, and not for files that appear later`,
  );
  return paths.flatMap((path) =>
    (isClosed(rule.level) ? literal(path) : isLink(path) ? [] : [path]).map((found) => ({
      ...rule,
      path: found,
      isImplied: true,
      leavesRepository: isOfRepository && !isWithin(found, repository),
    })),
  );
}

interface Found {
  readonly paths: readonly string[];
  /** Why not everything was looked at. */
  readonly unfinished: string | undefined;
}

/** Depth first and never through a link: the tree may be hostile, and as large as it likes. */
function walk(start: string, names: readonly string[], { budget, bounds }: Work): Found {
  const paths: string[] = [];
  const waiting: { readonly directory: string; readonly positions: Positions }[] = [
    { directory: start, positions: positionsFrom(names, [0]) },
  ];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { directory, positions } = next;
    const entries = entriesOf(directory, budget.entries);
    if (entries === undefined) {
      if (mayBoxLookInto(directory))
        return { paths, unfinished: `${JSON.stringify(directory)} can't be listed` };
      continue;
    }
    budget.entries -= entries.length;
    if (budget.entries <= 0) return { paths, unfinished: `more than ${bounds.entriesMax} files` };
    if (performance.now() > budget.endsMs)
      return { paths, unfinished: `it took longer than ${bounds.timeMs} ms` };
    for (const entry of entries) {
      const { name } = entry;
      const isDirectory = entry.isDirectory();
      const path = joined(directory, name);
      if (directory === '/' && ownTrees.includes(path)) continue;
      const { isMatch, below } = step(names, positions, name);
      // No rule can name it, nor what is in it.
      if (name.includes('\uFFFD') && (isMatch || (isDirectory && below.length > 0)))
        return { paths, unfinished: `the name ${JSON.stringify(path)} is no UTF-8` };
      if (isMatch) {
        paths.push(path);
        if (paths.length > bounds.matchesMax)
          return { paths, unfinished: `more than ${bounds.matchesMax} paths match` };
      }
      // What lies below a path that matches has its level.
      else if (isDirectory && below.length > 0) waiting.push({ directory: path, positions: below });
    }
  }
  return { paths, unfinished: undefined };
}

/** Its owner, who is a box's user as well, may open it there; and where the path is too long, or descriptors are out, nobody has looked. */
function mayBoxLookInto(directory: string): boolean {
  try {
    const facts = lstatSync(directory, { throwIfNoEntry: false });
    return facts?.isDirectory() === true && facts.uid === process.geteuid?.();
  } catch (cause) {
    return errnoOf(cause) !== 'ENOTDIR';
  }
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
}
