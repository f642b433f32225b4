/** Rules that are still being put together. What a finished set says is `@squash/policy/paths/levels`. */
import type { PathLevel } from '@squash/contract/path-levels';
import { lineage, stricter } from '@squash/policy/paths/levels';

/** For the command line, which knows no policy. */
export { isOpened, isWithin, lineage } from '@squash/policy/paths/levels';

export type Rules = Map<string, PathLevel>;

/** The longest rule wins; what none names is hidden. */
export function levelAt(rules: ReadonlyMap<string, PathLevel>, path: string): PathLevel {
  const rule = lineage(path).findLast((each) => rules.has(each));
  return (rule === undefined ? undefined : rules.get(rule)) ?? 'hidden';
}

/** Where one path is named twice the stricter level holds, in whatever order they came. */
export function addRule(rules: Rules, path: string, level: PathLevel): void {
  rules.set(path, stricter(level, rules.get(path) ?? level));
}
