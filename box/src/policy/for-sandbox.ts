/**
 * A policy file for a sandbox with layers: network, variables, secrets and limits are the same words there as for a box, and what it opens of
 * this machine's files is attached at the same path with the same levels, as far as the daemon's operator lets it be. What such a sandbox
 * can't have is refused by name, each line of it: a rule that is left out would be none that anybody asked for.
 */
import type { MountPaths, MountWish } from '@squash/contract/volume';
import { isWithin } from '@squash/policy/paths/levels';
import { PolicyProblem, placeIn } from '../policy-problem.ts';
import type { PolicyPlaces } from '../policy-places.ts';
import { expandLayers, type Grounds } from './expand.ts';
import type { PolicyFile } from './file-schema.ts';
import type { Part } from './layers.ts';
import { loadLayers } from './load.ts';
import { isClosed } from './levels.ts';
import type { ResolvedPath } from './merge-paths.ts';
import { mergeLayers, type ResolvedPolicy } from './merge.ts';

export interface SandboxPolicy {
  readonly policy: ResolvedPolicy;
  /** Undefined: as without a file. */
  readonly root: SandboxRoot | undefined;
  /** What is opened of this machine, by path. */
  readonly mounts: readonly MountWish[];
}

export type SandboxRoot = Exclude<PolicyFile['root'], 'host' | undefined>;

/** @param file named by the person himself. The managed file counts, no other. @throws PolicyProblem */
export function policyForSandbox(places: PolicyPlaces, grounds: Grounds, file: string): SandboxPolicy {
  const { layers } = loadLayers(places, { files: [file], flags: undefined, isAlone: true });
  const own = layers.filter(({ origin }) => origin === 'command line').flatMap(({ parts }) => parts);
  const problems = own.flatMap(unmet);
  if (problems.length > 0) throw new PolicyProblem(problems);
  const { layers: pathLayers, notes } = expandLayers(layers, grounds);
  const unfinished = notes.filter(({ isError }) => isError);
  if (unfinished.length > 0)
    throw new PolicyProblem(unfinished.map(({ written, text }) => `${JSON.stringify(written)}: ${text}`));
  const policy = mergeLayers(layers, pathLayers, grounds);
  // Of a file and those that it extends the nearest.
  const root = own.findLast((part) => part.policy.root !== undefined)?.policy.root;
  return { policy, root: root === 'host' ? undefined : root, mounts: mountsOf(policy.paths) };
}

/** Each directory that is opened where nothing around it is. Bundles open what may lie on this machine, as far as it does: not here. */
function mountsOf(all: ReadonlyMap<string, ResolvedPath>): readonly MountWish[] {
  const rules = new Map(
    [...all].filter(
      ([, { level, source }]) =>
        isClosed(level) || (source.origin === 'command line' && !source.file.startsWith('builtin:')),
    ),
  );
  const opened = [...rules].filter(([, { level }]) => !isClosed(level)).map(([path]) => path);
  const roots = opened.filter((path) => !opened.some((other) => other !== path && isWithin(path, other)));
  return roots.map((host) => {
    const below = [...rules].filter(([path]) => path !== host && isWithin(path, host));
    const paths: MountPaths = Object.fromEntries(
      below.map(([path, { level, text }]) => [
        path.slice(host.length + 1),
        level === 'mask' ? { mask: text ?? '' } : level,
      ]),
    );
    const level = rules.get(host)?.level;
    return {
      host,
      path: host,
      ...((level === 'cow' || level === 'rw') && { mode: level }),
      ...(below.length > 0 && { paths }),
    };
  });
}

/** What a sandbox has not of a bundle’s, nobody is told. */
function unmet({ policy, file, lineOf }: Part): readonly string[] {
  if (file.startsWith('builtin:')) return [];
  return reasons(policy).map(([path, why]) => `${placeIn(file, lineOf(path))}: ${path.join('.')}: ${why}`);
}

function reasons(policy: PolicyFile): readonly (readonly [path: readonly string[], why: string])[] {
  const { root, caches = {}, ports, sockets, devices, nesting, limits } = policy;
  const alone = 'of boxes alone';
  const rows: readonly (readonly [isSaid: boolean, path: readonly string[], why: string])[] = [
    [root === 'host', ['root'], 'of a box: squash box run'],
    [has(ports?.host), ['ports', 'host'], alone],
    [has(ports?.publish), ['ports', 'publish'], 'squash port-forward does it'],
    [has(sockets?.allow), ['sockets', 'allow'], alone],
    [has(devices?.allow), ['devices', 'allow'], alone],
    [nesting === true, ['nesting'], alone],
    [
      limits?.time_s !== undefined,
      ['limits', 'time_s'],
      '--lifetime is the sandbox’s, --timeout a command’s',
    ],
    ...Object.entries(caches).map(
      ([name, mode]) => [mode !== 'private', ['caches', name], 'it has no cache of this machine'] as const,
    ),
  ];
  return rows.filter(([isSaid]) => isSaid).map(([, path, why]) => [path, why]);
}

function has(list: readonly unknown[] | undefined): boolean {
  return list !== undefined && list.length > 0;
}
