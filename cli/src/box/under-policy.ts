/** What is asked of the daemon, as the policies of this machine allow and limit it. */
import type { Resolution } from '@squash/box/policy/resolve';
import { isOpened, levelAt } from '@squash/box/levels';
import type { Flags } from '../arguments.ts';
import {
  asPolicyFailure,
  boxPlace,
  currentPolicy,
  noteResolution,
  type PolicyWords,
  resolvedPolicy,
  startDirectory,
} from './policy.ts';
import { type BoxWish, readEnd } from './box-wish.ts';
import { readDevices } from './devices.ts';
import { readSockets } from './sockets.ts';

/** @returns the wish itself where no policy says anything */
export async function underPolicy(
  flags: Flags,
  wish: BoxWish,
  words: Omit<PolicyWords, 'files' | 'env' | 'limits' | 'program'>,
): Promise<BoxWish> {
  const isShown = flags.isSet('print-policy') || flags.isSet('dry-run');
  const { create, timeoutMs, argv } = wish;
  const all: PolicyWords = {
    ...words,
    files: flags.list('policy'),
    program: argv[0],
    env: variablesOf(flags),
    limits: {
      ...(typeof create['memory_mb'] === 'number' && { memory_mb: create['memory_mb'] }),
      ...(typeof create['cpu'] === 'number' && { cpu: create['cpu'] }),
      ...(typeof create['processes_max'] === 'number' && { processes: create['processes_max'] }),
      ...(timeoutMs !== undefined && { time_s: timeoutMs / 1_000 }),
    },
  };
  const resolution = flags.isSet('print-policy') ? await currentPolicy(all) : await resolvedPolicy(all);
  if (resolution === undefined) return wish;
  noteResolution(resolution);
  return await asPolicyFailure(
    async () => await limited(wish, resolution, { isShown, hasNet: !flags.isSet('no-net') }),
  );
}

/** A wish without options, as a policy that was resolved for it says. @throws PolicyProblem, box_refused */
export async function underResolution(wish: BoxWish, resolution: Resolution): Promise<BoxWish> {
  noteResolution(resolution);
  return await limited(wish, resolution, { isShown: false, hasNet: true });
}

interface How {
  /** Secrets are not read for a run that does not come. */
  readonly isShown: boolean;
  readonly hasNet: boolean;
}

async function limited(wish: BoxWish, resolution: Resolution, { isShown, hasNet }: How): Promise<BoxWish> {
  const { hostPlaces } = await import('@squash/box/policy/resolve');
  const { namedWords } = await import('@squash/box/policy/sockets');
  const { policyVariables } = await import('@squash/box/policy/variables');
  const { readSecrets } = await import('@squash/box/policy/secret-values');
  const { policy } = resolution;
  const { create } = wish;
  const { paths, masks } = hostPlaces(policy);
  const place = boxPlace();
  const isRepositoryOpen = isOpened(levelAt(new Map(Object.entries(paths)), place.repository));
  const rules = {
    ...wish.rules,
    paths,
    repository: isRepositoryOpen ? place.repository : undefined,
    workdir: startDirectory(resolution, paths, place),
  };
  const { labels: _labels, policy: _net, ...others } = create;
  const { work: _work, nesting: _nesting, ...host } = create.from.host;
  const end = readEnd(rules, wish);
  const { memory_mb: memory, cpu, processes, time_s: time } = policy.limits;
  return {
    ...wish,
    rules,
    resolution,
    sockets: readSockets(namedWords('sockets', policy, place), place),
    devices: readDevices(namedWords('devices', policy, place), place),
    publish: policy.ports.publish.map(({ value }) => value),
    env: { ...wish.env, ...policyVariables(policy, process.env) },
    timeoutMs: time === undefined ? undefined : time.value * 1_000,
    create: {
      ...others,
      from: {
        host: { ...host, ...end.host, paths, masks, ...(policy.nesting !== undefined && { nesting: true }) },
      },
      policy: hasNet ? policy.net : { allow: [], deny: policy.net.deny },
      ...(policy.secrets.size > 0 &&
        !isShown && { own_secrets: readSecrets(policy.secrets, { env: process.env, home: place.home }) }),
      ...(memory !== undefined && { memory_mb: memory.value }),
      ...(cpu !== undefined && { cpu: cpu.value }),
      ...(processes !== undefined && { processes_max: processes.value }),
      ...(end.labels !== undefined && { labels: end.labels }),
    },
  };
}

function variablesOf(flags: Flags): PolicyWords['env'] {
  const words = flags.list('env');
  const set = words
    .filter((word) => word.includes('='))
    .map((word): readonly [string, string] => {
      const at = word.indexOf('=');
      return [word.slice(0, at), word.slice(at + 1)];
    });
  return { pass: words.filter((word) => !word.includes('=')), set: Object.fromEntries(set) };
}
