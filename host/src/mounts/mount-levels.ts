/**
 * Levels of what lies in a directory of the host that is attached: the rules of a host root, held against this directory alone, and
 * compiled by the same compiler. Paths are those of the host.
 */
import type { HostPaths } from '@squash/contract/host-root';
import type { HostWish } from '@squash/contract/mount-check';
import type { PathLevel } from '@squash/contract/path-levels';
import type { MountPaths } from '@squash/contract/volume';
import { compilePlaces, type PathFacts } from '@squash/policy/paths/compile';
import { isOpened, isWithin, lineage, resolveLevel } from '@squash/policy/paths/levels';
import type { HostPlace } from '../drivers/driver.ts';

type Levels = Pick<HostWish, 'path' | 'mode' | 'paths'>;

/** The directory's own level, and that of each path in it. */
export function mountRules({ path, mode, paths = {} }: Levels): HostPaths {
  const below = Object.entries(paths).map(([name, level]) => [`${path}/${name}`, levelOf(level)] as const);
  return { [path]: mode, ...Object.fromEntries(below) };
}

function levelOf(level: MountPaths[string]): PathLevel {
  return typeof level === 'string' ? level : 'mask';
}

/**
 * Whether the levels close a name in the directory for good: also what comes there later. In what is open for writing it would be seen,
 * and there it is the operator's to say that this is enough.
 */
export function isClosedForGood(wish: Levels, name: string): boolean {
  const rules = mountRules(wish);
  const path = `${wish.path}/${name}`;
  if (isOpened(resolveLevel(rules, path))) return false;
  const around = lineage(path)
    .toReversed()
    .map((each) => resolveLevel(rules, each))
    .find(isOpened);
  return around !== 'rw';
}

export type CompiledMount =
  | { readonly places: readonly HostPlace[] }
  | { readonly unheld: string; readonly why: string };

/**
 * What the launcher is to make of it, targets as paths of the host. A level that can't be held as it is written is none that
 * anybody asked for.
 *
 * @param hidden names in it that the operator hides: where it is open for writing those that are there
 */
export function compileMount(wish: Levels, hidden: readonly string[], facts: PathFacts): CompiledMount {
  const rules: Record<string, PathLevel> = { ...mountRules(wish) };
  for (const name of hidden) rules[`${wish.path}/${name}`] = 'hidden';
  // As without levels: what it leads to would be seen by its own name.
  const led = hidden.find((name) => leadsElsewhere(`${wish.path}/${name}`, wish.path, facts));
  if (led !== undefined) return { unheld: `${wish.path}/${led}`, why: 'a link is there or on the way' };
  const { places, dropped } = compilePlaces(rules, facts, { closesForGood: true });
  const isMissing = (path: string): boolean =>
    hidden.includes(path.slice(wish.path.length + 1)) && facts.stat(path) === undefined;
  const unheld = dropped.find(({ path }) => !isMissing(path));
  if (unheld !== undefined) return { unheld: unheld.path, why: unheld.why };
  const own = places.filter(({ target }) => isWithin(target, wish.path));
  const link = own.find(({ kind }) => kind === 'link');
  if (link !== undefined) return { unheld: link.target, why: 'it is a link' };
  return { places: own };
}

function leadsElsewhere(path: string, top: string, facts: PathFacts): boolean {
  const way = lineage(path).filter((at) => at !== top && isWithin(at, top));
  return facts.stat(path) !== undefined && way.some((at) => facts.stat(at)?.type === 'link');
}
