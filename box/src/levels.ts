/**
 * Levels of paths as `@squash/policy/paths/levels` has them, for a program that starts as fast as Node does: that module brings
 * the schema library along, which costs three times Node's start.
 */
import type { PathLevel } from '@squash/contract/host-root';

/** The strictest first. */
const order: readonly PathLevel[] = ['hidden', 'deny', 'mask', 'ro', 'cow', 'rw'];

/** Rules that are still being put together. */
export type Rules = Map<string, PathLevel>;

export function stricter(one: PathLevel, other: PathLevel): PathLevel {
  return order.indexOf(one) <= order.indexOf(other) ? one : other;
}

export function isOpened(level: PathLevel): level is 'ro' | 'cow' | 'rw' {
  return level === 'ro' || level === 'cow' || level === 'rw';
}

export function isWithin(path: string, place: string): boolean {
  return place === '/' || path === place || path.startsWith(`${place}/`);
}

/** The longest rule wins; what none names is hidden. */
export function levelAt(rules: ReadonlyMap<string, PathLevel>, path: string): PathLevel {
  let at = path;
  for (;;) {
    const level = rules.get(at);
    if (level !== undefined) return level;
    if (at === '/' || at === '') return 'hidden';
    at = at.slice(0, at.lastIndexOf('/')) || '/';
  }
}

/** Where one path is named twice the stricter level holds, in whatever order they came. */
export function addRule(rules: Rules, path: string, level: PathLevel): void {
  rules.set(path, stricter(level, rules.get(path) ?? level));
}
