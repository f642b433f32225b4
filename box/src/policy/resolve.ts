/**
 * From the files of this machine and the words of a call to the one policy of a run. Whoever runs boxes calls this; the parts below it
 * are pure but for `load` and `expand`.
 */
import { existsSync } from 'node:fs';
import { type HostPaths, hostRootLimits } from '@squash/contract/host-root';
import type { BoxRules } from '../base-rules.ts';
import { isWithin } from '@squash/policy/paths/levels';
import { isCachePath } from './bundles.ts';
import { existing, expandLayers, type Grounds, type Note } from './expand.ts';
import type { PolicyPlaces } from '../policy-places.ts';
import type { PathLayer } from './layers.ts';
import { isClosed } from './levels.ts';
import { type CommandLine, type Loaded, loadLayers } from './load.ts';
import { mergeLayers, type ResolvedPolicy } from './merge.ts';
import type { ResolvedPath } from './merge-paths.ts';
import { longestMatch, parentOf } from './paths.ts';
import { refusePattern } from './pattern.ts';
import { PolicyProblem, placeIn } from '../policy-problem.ts';
import { gitRules } from '../worktree.ts';

export interface Resolution {
  readonly policy: ResolvedPolicy;
  readonly notes: readonly Note[];
  readonly loaded: Loaded;
}

export interface ResolveFacts {
  readonly places: PolicyPlaces;
  readonly grounds: Grounds;
  /** What a box has where no file says anything. */
  readonly defaults: Pick<BoxRules, 'paths'>;
}

/** @throws PolicyProblem where a file can't be taken as it is */
export function resolvePolicy({ places, grounds, defaults }: ResolveFacts, words: CommandLine): Resolution {
  for (const path of [grounds.home, grounds.repository]) refusePattern(path);
  const loaded = loadLayers(places, words);
  refuseOtherRoots(loaded);
  const { layers, notes } = expandLayers(loaded.layers, grounds);
  const all = [defaultPaths(defaults.paths), ownPlaces(places), ...layers];
  const policy = mergeLayers(loaded.layers, all, grounds);
  const paths = words.isGitWritten === true ? policy.paths : withGit(policy, grounds);
  return { policy: { ...policy, paths }, notes, loaded };
}

/** Whoever's word it is: what was meant for a sandbox of its own does not run over this machine's files. */
function refuseOtherRoots({ layers }: Loaded): void {
  const problems = layers.flatMap(({ parts }) =>
    parts.flatMap(({ policy: { root }, file, lineOf }) =>
      root === undefined || root === 'host'
        ? []
        : [
            `${placeIn(file, lineOf(['root']))}: root: of a sandbox, not of a box: squash run --policy ${file}`,
          ],
    ),
  );
  if (problems.length > 0) throw new PolicyProblem(problems);
}

/** What git keeps, of a repository that is written itself. A file may say otherwise by name. */
function withGit({ paths, workdir }: ResolvedPolicy, { home, repository }: Grounds): ResolvedPolicy['paths'] {
  const ground = { home, uid: process.geteuid?.() ?? -1 };
  const added = new Set([repository, workdir?.value ?? repository])
    .values()
    .flatMap((path) => (paths.get(path)?.level === 'rw' ? gitRules(path, 'rw', ground) : []));
  const source = { origin: 'default', file: 'builtin:base' } as const;
  const rules = [...added].map(([path, level]): readonly [string, ResolvedPath] => [
    path,
    { level, text: undefined, written: path, source },
  ]);
  return new Map([...rules, ...paths].toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

/** A box that could write these would write its own permission. */
function ownPlaces(places: PolicyPlaces): PathLayer {
  const source = { origin: 'managed', file: 'builtin:own' } as const;
  const rules = [places.user, places.state].map((written) => ({
    path: existing(written),
    level: 'hidden' as const,
    text: undefined,
    written,
    source,
    isImplied: false,
    leavesRepository: false,
  }));
  return { origin: 'managed', isTrusted: true, rules, workdirs: [] };
}

export function defaultPaths(paths: HostPaths): PathLayer {
  const source = { origin: 'default', file: 'builtin:base' } as const;
  const rules = Object.entries(paths).map(([path, level]) => ({
    path,
    level,
    text: undefined,
    written: path,
    source,
    isImplied: true,
    leavesRepository: false,
  }));
  return { origin: 'default', isTrusted: true, rules, workdirs: [] };
}

export interface HostPlaces {
  readonly paths: HostPaths;
  readonly masks: Readonly<Record<string, string>>;
}

/** As the API takes it: where they are many without those that say nothing new. @throws PolicyProblem where it is more than a box holds */
export function hostPlaces(policy: ResolvedPolicy): HostPlaces {
  const all = [...policy.paths].filter(([path, rule]) => path !== '/' && !isIdle(path, rule));
  const isMany = all.length > hostRootLimits.pathsMax;
  const kept = isMany ? all.filter(([path, rule]) => saysMore(path, rule, policy.paths)) : all;
  if (kept.length > hostRootLimits.pathsMax) {
    throw new PolicyProblem([
      `the policy names ${kept.length} paths: a box holds ${hostRootLimits.pathsMax}; name directories instead of what is in them`,
    ]);
  }
  const masks = kept.flatMap(([path, { level, text }]) => (level === 'mask' ? [[path, text ?? '']] : []));
  return {
    paths: Object.fromEntries(kept.map(([path, { level }]) => [path, level])),
    masks: Object.fromEntries(masks),
  };
}

/** Bundles and `caches` open what somebody may have installed: of what is not there nobody has to be told. */
function isIdle(path: string, { level, source, written }: ResolvedPath): boolean {
  const isOffered = source.file.startsWith('builtin:') || isCachePath(written);
  return !isClosed(level) && isOffered && !existsSync(path);
}

/** A closed path stays where something opened stands above or below it: it holds for files that appear later. */
function saysMore(path: string, { level }: ResolvedPath, paths: ResolvedPolicy['paths']): boolean {
  const above = longestMatch(paths, parentOf(path))?.rule.level ?? 'hidden';
  if (level !== above || level === 'mask') return true;
  return (
    isClosed(level) &&
    [...paths].some(([each, rule]) => each !== path && isWithin(each, path) && !isClosed(rule.level))
  );
}
