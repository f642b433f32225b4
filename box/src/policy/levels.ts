/**
 * What a box sees of a path, from the strictest to the most open.
 *
 * What a newcomer would get wrong: `hidden` is stricter than `deny`, because a path that is denied still shows its name.
 */
import { type PathLevel, pathLevels } from '@squash/contract/path-levels';

/** Nothing of the host's content is seen under such a level. */
export function isClosed(level: PathLevel): boolean {
  return level === 'hidden' || level === 'deny' || level === 'mask';
}

/** Negative where the first is stricter. */
export function compareLevels(one: PathLevel, other: PathLevel): number {
  return pathLevels.indexOf(one) - pathLevels.indexOf(other);
}

/** What a program finds there, for `why`. */
export const insideWords: Readonly<Record<PathLevel, string>> = {
  hidden: 'it does not exist inside; what is written under this name stays in the box',
  deny: 'it can be neither read nor written; its name may be seen',
  mask: 'a text stands there instead of its contents; it can’t be written',
  ro: 'it can be read; writing is refused',
  cow: 'it can be read and written; what is written stays in the box until it is applied',
  rw: 'it can be read and written; what is written is on this machine at once',
};
