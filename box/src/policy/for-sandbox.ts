/**
 * A policy file for a sandbox with layers: network, variables, secrets and limits are the same words there as for a box, and nothing of
 * this machine's files is in it. What it opens of this machine is refused by name, each line of it: a rule that is left out would be
 * none that anybody asked for.
 */
import { PolicyProblem, placeIn } from '../policy-problem.ts';
import type { PolicyPlaces } from '../policy-places.ts';
import type { Grounds } from './expand.ts';
import type { PolicyFile } from './file-schema.ts';
import type { Part } from './layers.ts';
import { loadLayers } from './load.ts';
import { mergeLayers, type ResolvedPolicy } from './merge.ts';

export interface SandboxPolicy {
  readonly policy: ResolvedPolicy;
  /** Undefined: as without a file. */
  readonly root: SandboxRoot | undefined;
}

export type SandboxRoot = Exclude<PolicyFile['root'], 'host' | undefined>;

/** @param file named by the person himself. The managed file counts, no other. @throws PolicyProblem */
export function policyForSandbox(places: PolicyPlaces, grounds: Grounds, file: string): SandboxPolicy {
  const { layers } = loadLayers(places, { files: [file], flags: undefined, isAlone: true });
  const own = layers.filter(({ origin }) => origin === 'command line').flatMap(({ parts }) => parts);
  const problems = own.flatMap(unmet);
  if (problems.length > 0) throw new PolicyProblem(problems);
  // Of a file and those that it extends the nearest.
  const root = own.findLast(({ policy }) => policy.root !== undefined)?.policy.root;
  return { policy: mergeLayers(layers, [], grounds), root: root === 'host' ? undefined : root };
}

/** Bundles open what may lie on this machine, as far as it does: of what a sandbox has not, nobody is told. */
function unmet({ policy, file, lineOf }: Part): readonly string[] {
  if (file.startsWith('builtin:')) return [];
  const line = (path: readonly string[], why: string): string =>
    `${placeIn(file, lineOf(path))}: ${path.join('.')}: ${why}`;
  const opened = Object.entries(policy.fs ?? {}).filter(
    ([, level]) => level !== 'hidden' && level !== 'deny',
  );
  const fs = opened.map(([path, level]) =>
    line(
      ['fs', path],
      `${typeof level === 'string' ? level : 'mask'}: nothing of this machine’s files is in a sandbox with layers; to attach a directory: --mount`,
    ),
  );
  return [...fs, ...reasons(policy).map(([path, why]) => line(path, why))];
}

function reasons(policy: PolicyFile): readonly (readonly [path: readonly string[], why: string])[] {
  const { root, workdir, caches = {}, ports, sockets, devices, nesting, limits } = policy;
  const alone = 'of boxes alone';
  const rows: readonly (readonly [isSaid: boolean, path: readonly string[], why: string])[] = [
    [root === 'host', ['root'], 'of a box: squash box run'],
    [workdir !== undefined, ['workdir'], 'it has no directory of this machine'],
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
