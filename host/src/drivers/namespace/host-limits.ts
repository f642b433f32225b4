/**
 * From what the host offers to what a sandbox can be promised: the kind of upper, and a warning for each limit that
 * does not hold here. The names of capabilities are those `native/launch/probe.c` sends.
 */
import type { Capability } from '@squash/contract/capability';
import { AppError } from '@squash/contract/errors';
import type { DriverWarning, SandboxLimits, UpperKind } from '../driver.ts';

/** Strongest first; `directory` holds by accounting, which lets a fast writer overshoot before it is stopped. */
const preference: readonly (readonly [UpperKind, string])[] = [
  ['project', 'upper_project'],
  ['image', 'upper_image'],
];

function isOk(capabilities: readonly Capability[], name: string): boolean {
  return capabilities.some((capability) => capability.name === name && capability.state === 'ok');
}

/** @throws config_invalid where the configuration names a kind that this host can't give */
export function chooseUpperKind(wanted: 'auto' | UpperKind, capabilities: readonly Capability[]): UpperKind {
  const available = preference.filter(([, name]) => isOk(capabilities, name)).map(([kind]) => kind);
  if (wanted === 'auto') return available[0] ?? 'directory';
  if (wanted === 'directory' || wanted === 'tmpfs' || available.includes(wanted)) return wanted;
  const reason =
    capabilities.find(({ name }) => name === `upper_${wanted}`)?.found ?? 'the host does not offer it';
  throw new AppError(
    'config_invalid',
    `SQUASH_UPPER is "${wanted}", but ${reason}: unset it or mend the host`,
  );
}

/** Whether sandboxes get more than loopback here. What they reach by it the policy says. */
export function hasNetwork(capabilities: readonly Capability[]): boolean {
  return isOk(capabilities, 'network');
}

const controlled = [
  ['cgroup_memory', 'memory_limit', 'memory_mb is not enforced'],
  ['cgroup_cpu', 'cpu_limit', 'cpu is not enforced'],
  ['cgroup_pids', 'pids_limit', 'the number of processes is not limited'],
] as const;

/** What of `limits` does not hold on this host. */
export function unenforced(
  limits: SandboxLimits,
  kind: UpperKind,
  capabilities: readonly Capability[],
): readonly DriverWarning[] {
  const warnings: DriverWarning[] = controlled
    .filter(([name]) => !isOk(capabilities, name))
    .map(([name, code, what]) => {
      const found =
        capabilities.find((capability) => capability.name === name)?.found ?? 'no such control group';
      return { code, message: `${what}: ${found} (see squash doctor)` };
    });
  if (!hasNetwork(capabilities)) {
    const found = capabilities.find(({ name }) => name === 'network')?.found ?? 'it was not probed';
    warnings.push({ code: 'network', message: `the sandbox has no network: ${found} (see squash doctor)` });
  }
  if (kind === 'directory') {
    const megabytes = Math.round(limits.upperBytesMax / 1_048_576);
    warnings.push({
      code: 'upper_limit',
      message: `the writable layer is held to ${megabytes} MB by measuring: a fast writer may overshoot before it is stopped (see squash doctor)`,
    });
  }
  return warnings;
}
