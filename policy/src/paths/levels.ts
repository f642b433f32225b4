/** Which level a path of the host has under rules. Pure, as all of the policy. */
import type { HostPaths } from '@squash/contract/host-root';
import { type PathLevel, pathLevels } from '@squash/contract/path-levels';

export function stricter(one: PathLevel, other: PathLevel): PathLevel {
  return pathLevels.indexOf(one) <= pathLevels.indexOf(other) ? one : other;
}

/** The host's own file or directory is seen. */
export function isOpened(level: PathLevel): level is 'ro' | 'cow' | 'rw' {
  return level === 'ro' || level === 'cow' || level === 'rw';
}

/** The path of the rule that decides. Undefined: none does. */
export function winningRule(rules: HostPaths, path: string): string | undefined {
  for (let at = path; ; at = parentOf(at)) {
    if (Object.hasOwn(rules, at)) return at;
    if (at === '/') return undefined;
  }
}

/** What no rule names is hidden. */
export function resolveLevel(rules: HostPaths, path: string): PathLevel {
  const rule = winningRule(rules, path);
  return (rule === undefined ? undefined : rules[rule]) ?? 'hidden';
}

export function isWithin(path: string, place: string): boolean {
  return place === '/' || path === place || path.startsWith(`${place}/`);
}

/** All directories that a path lies in, from the root on, and the path itself. */
export function lineage(path: string): readonly string[] {
  const all = ['/'];
  for (let end = path.indexOf('/', 1); end !== -1; end = path.indexOf('/', end + 1))
    all.push(path.slice(0, end));
  return path === '/' ? all : [...all, path];
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

/** Where a link leads, by its text alone. */
export function absoluteLink(path: string, text: string): string {
  const whole = text.startsWith('/') ? text : `${path.slice(0, path.lastIndexOf('/'))}/${text}`;
  const parts: string[] = [];
  for (const part of whole.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return `/${parts.join('/')}`;
}
