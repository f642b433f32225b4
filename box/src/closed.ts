/**
 * What no rule of the command line opens by itself. The judge is the daemon, which refuses these whatever it is asked; here they are only
 * left out of what is opened without being named, so that a directory of `PATH` below one of them is no reason to refuse a box.
 */
import { dirname } from 'node:path';
import { closedInHome, closedPaths, noHomes, systemPaths } from '@squash/contract/path-levels';
import { isWithin } from '@squash/policy/paths/levels';

const ofSystem: readonly string[] = [...closedPaths, ...systemPaths, '/var/run'];

export function isClosed(path: string, home: string): boolean {
  if (ofSystem.some((place) => isWithin(path, place))) return true;
  if (isWithin(path, home)) return closedInHome.some((name) => isWithin(path, `${home}/${name}`));
  // Root's home, and those beside the user's own.
  const homes = dirname(home);
  return isWithin(path, '/root') || (!noHomes.includes(homes) && path !== homes && isWithin(path, homes));
}
