/** `--policy FILE` of a sandbox with layers, where FILE is a policy file as boxes have them and no network policy alone. */
import { readFileSync } from 'node:fs';
import { asPolicyFailure, boxPlace } from './box/policy.ts';
import type { MountWish } from '@squash/contract/volume';
import type { Call } from './command.ts';

/** One of JSON says so by its `version`. */
export function isPolicyFile(path: string | undefined): path is string {
  if (path === undefined || path === '-') return false;
  if (/\.(?:toml|jsonc)$/.test(path)) return true;
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return typeof value === 'object' && value !== null && Object.hasOwn(value, 'version');
  } catch {
    // Whoever reads it next says what is wrong with it.
    return false;
  }
}

export interface FiledFields {
  readonly policy: object;
  readonly env: Readonly<Record<string, string>>;
  readonly own_secrets?: object;
  readonly cpu?: number;
  readonly memory_mb?: number;
  readonly processes_max?: number;
  readonly mounts: readonly MountWish[];
}

/** What it says, in the words of a create. @throws policy_refused with all of it that such a sandbox can't have */
export async function filedFields(path: string): Promise<FiledFields> {
  const { policyForSandbox } = await import('@squash/box/policy/for-sandbox');
  const { policyVariables } = await import('@squash/box/policy/variables');
  const { readSecrets } = await import('@squash/box/policy/secret-values');
  const { places, home, repository } = boxPlace();
  return await asPolicyFailure(async () => {
    const { policy, mounts } = policyForSandbox(places, { home, repository }, path);
    const { cpu, memory_mb: memory, processes } = policy.limits;
    return {
      policy: policy.net,
      mounts,
      env: policyVariables(policy, process.env),
      ...(policy.secrets.size > 0 && {
        own_secrets: readSecrets(policy.secrets, { env: process.env, home }),
      }),
      ...(cpu !== undefined && { cpu: cpu.value }),
      ...(memory !== undefined && { memory_mb: memory.value }),
      ...(processes !== undefined && { processes_max: processes.value }),
    };
  });
}

/** A call whose image and layers are the file's, where neither was given otherwise. @throws policy_refused */
export async function underFiledRoot<C extends Pick<Call, 'flags'>>(call: C): Promise<C> {
  const { flags } = call;
  const file = flags.text('policy');
  const isGiven = ['image', 'layers', 'from'].some((name) => flags.isDeclared(name) && flags.isSet(name));
  if (isGiven || !isPolicyFile(file)) return call;
  const { policyForSandbox } = await import('@squash/box/policy/for-sandbox');
  const { places, home, repository } = boxPlace();
  const { root } = await asPolicyFailure(async () => policyForSandbox(places, { home, repository }, file));
  if (root === undefined) return call;
  const { image, layers = [] } = root;
  const named = {
    ...(image !== undefined && { image: [image] }),
    ...(layers.length > 0 && { layers }),
  };
  return { ...call, flags: flags.or(named) };
}
