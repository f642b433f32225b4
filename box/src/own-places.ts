/**
 * Where a person's own policy lies, and what this program keeps of his answers: a box that could write there would write its own permission.
 * What is not there yet is made, for nothing can be laid over a name that is not.
 */
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { HostPaths } from '@squash/contract/host-root';
import { isOpened, isWithin } from '@squash/policy/paths/levels';
import { canonical, canonicalOfMissing } from './host-paths.ts';
import { levelAt } from './levels.ts';
import { ownFileNames, type PolicyPlaces } from './policy-places.ts';
import { BoxRefusal } from './refusal.ts';

/** @returns the same rules where none of it could be written @throws BoxRefusal `box_refused` */
export function withoutOwnPlaces(
  paths: HostPaths,
  { user, state }: Pick<PolicyPlaces, 'user' | 'state'>,
): HostPaths {
  const rules = new Map(Object.entries(paths));
  for (const place of [user, state].map(canonicalOfMissing)) {
    const isWritten = [...rules].some(([path, level]) => level === 'rw' && isWithin(path, place));
    if (!isWritten && levelAt(rules, dirname(place)) !== 'rw') continue;
    for (const [path, level] of rules) if (isWithin(path, place) && isOpened(level)) rules.delete(path);
    makePlace(place);
    rules.set(place, 'hidden');
  }
  // As links they may lie in a repository of settings.
  for (const file of ownFileNames.flatMap((name) => canonical(join(user, name)) ?? []))
    if (levelAt(rules, file) === 'rw') rules.set(file, 'ro');
  return Object.fromEntries(rules);
}

/** On a full disk, for example, it can't be: a box could make it later. */
function makePlace(place: string): void {
  try {
    mkdirSync(place, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new BoxRefusal(
      'box_refused',
      `a box may not write "${place}", and what would keep it out can't be made: ${(cause as Error).message}`,
    );
  }
}
