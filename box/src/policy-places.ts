/**
 * Where policies lie. Loads nothing but Node: a box on a machine without a policy file asks here, and needs no schema.
 */
import { lstatSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { errnoOf, PolicyProblem } from './policy-problem.ts';

export interface PolicyPlaces {
  /** `/etc/squash`. */
  readonly managed: string;
  /** `~/.config/squash`. */
  readonly user: string;
  /** Absolute, without links. */
  readonly repository: string;
  /** `~/.local/state/squash/box`. */
  readonly state: string;
}

export function policyPlaces(
  env: Readonly<Record<string, string | undefined>>,
  home: string,
  repository: string,
): PolicyPlaces {
  const directory = (name: string, otherwise: string): string => {
    const value = env[name];
    // The XDG specification has relative paths ignored.
    return value !== undefined && isAbsolute(value) ? value : join(home, otherwise);
  };
  return {
    managed: '/etc/squash',
    user: join(directory('XDG_CONFIG_HOME', '.config'), 'squash'),
    repository,
    state: join(directory('XDG_STATE_HOME', '.local/state'), 'squash/box'),
  };
}

/** The names that a project's file may have, below the repository. */
export const projectFileNames = ['.squash/box.toml', '.squash/box.jsonc', 'squash-box.toml'] as const;
export const ownFileNames = ['box.toml', 'box.jsonc'] as const;

/** What was answered for this repository. It lies where no box can write it, at the repository's path below. */
export function answersFile({ state, repository }: Pick<PolicyPlaces, 'state' | 'repository'>): string {
  return join(state, 'answers', repository, 'answers.jsonc');
}

/** Where this repository's file may lie. */
export function projectPaths({ repository }: PolicyPlaces): readonly string[] {
  return projectFileNames.map((name) => join(repository, name));
}

/** Also one that will be refused: a run without it is not what anybody asked for. */
export function hasPolicyFiles(places: PolicyPlaces): boolean {
  return [
    ...ownFileNames.flatMap((name) => [join(places.managed, name), join(places.user, name)]),
    ...projectPaths(places),
    answersFile(places),
  ].some(isThere);
}

export function isThere(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch (cause) {
    const code = errnoOf(cause);
    if (code === 'ENOENT' || code === 'ENOTDIR') return false;
    throw new PolicyProblem([`${path} can't be looked at: ${code ?? String(cause)}`]);
  }
}
