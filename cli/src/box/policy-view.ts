/** What a box would see and reach, for people and for programs, without one. */
import type { PathLevel } from '@squash/contract/path-levels';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { printTable } from '../output/table.ts';
import type { BoxWish } from './box-wish.ts';
import { asPolicyFailure } from './policy.ts';

export async function showPolicy(
  { flags, json }: Pick<Call, 'flags' | 'json'>,
  wish: BoxWish,
): Promise<number> {
  if (flags.isSet('print-policy') && wish.resolution !== undefined) {
    const { policyText } = await import('@squash/box/policy/policy-text');
    const { refusePattern } = await import('@squash/box/policy/pattern');
    const { policy } = wish.resolution;
    // It is to make the same box when it is given as a file.
    await asPolicyFailure(() => {
      for (const path of policy.paths.keys()) refusePattern(path);
      return Promise.resolve();
    });
    printJson(policyText(policy));
  } else if (json) printJson(policyOf(wish));
  else printPolicy(wish);
  return exitCodes.ok;
}

/** Variables by name: their values are the user's. */
function policyOf(wish: BoxWish) {
  const { create, rules, env, argv, timeoutMs, sockets, devices, publish, resolution } = wish;
  return {
    repository: rules.repository ?? null,
    workdir: rules.workdir,
    paths: rules.paths,
    network: create.policy ?? { allow: ['*'] },
    sockets: [...sockets.paths, ...agentWords(sockets)],
    devices,
    publish,
    nesting: create.from.host.nesting === true,
    environment: namesOf(create.env, env),
    secrets: [...(resolution?.policy.secrets.keys() ?? [])],
    cpu: numberOf(create['cpu']),
    memory_mb: numberOf(create['memory_mb']),
    processes: numberOf(create['processes_max']),
    timeout_s: timeoutMs === undefined ? null : timeoutMs / 1_000,
    argv,
  };
}

function printPolicy(wish: BoxWish): void {
  const policy = policyOf(wish);
  printTable<[string, PathLevel]>(
    [
      { title: 'LEVEL', text: ([, level]) => level },
      { title: 'PATH', text: ([path]) => path },
    ],
    Object.entries(policy.paths),
  );
  const { allow } = policy.network;
  printLine('');
  printLine(`What no rule names is hidden.`);
  const reached = allow.map(ruleText);
  printLine(`Network: ${reached.length === 0 ? 'none' : visible(reached.join(', '))}`);
  const { deny = [], ask = [] } = wish.create.policy ?? {};
  for (const [name, rules] of [
    ['never', deny],
    ['asked for', ask],
  ] as const)
    if (rules.length > 0) printLine(`  ${name}: ${visible(rules.map(ruleText).join(', '))}`);
  if (policy.sockets.length > 0) printLine(`Sockets: ${visible(policy.sockets.join(', '))}`);
  if (policy.devices.length > 0) printLine(`Devices: ${visible(policy.devices.join(', '))}`);
  if (policy.publish.length > 0) printLine(`Ports of the box on this machine: ${policy.publish.join(', ')}`);
  if (policy.nesting) printLine('Nesting: programs may make user namespaces');
  printLine(`Variables: ${policy.environment.join(', ')}`);
  if (policy.secrets.length > 0) printLine(`Secrets: ${visible(policy.secrets.join(', '))}`);
  const limits = [
    ['memory', policy.memory_mb, ' MiB'],
    ['processors', policy.cpu, ''],
    ['processes', policy.processes, ''],
    ['time', policy.timeout_s, ' s'],
  ] as const;
  for (const [name, value, unit] of limits) if (value !== null) printLine(`Limit: ${name} ${value}${unit}`);
  printLine(`Starts in ${visible(policy.workdir)}`);
  if (policy.argv.length > 0) printLine(`Would run: ${visible(policy.argv.join(' '))}`);
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}

function ruleText(rule: unknown): string {
  return typeof rule === 'string' ? rule : JSON.stringify(rule);
}

function agentWords({ agent }: BoxWish['sockets']): readonly string[] {
  if (agent === undefined) return [];
  return agent.keys === undefined ? ['ssh-agent'] : agent.keys.map((key) => `ssh-agent=${key}`);
}

function namesOf(...sets: readonly Readonly<Record<string, string>>[]): readonly string[] {
  return [...new Set(sets.flatMap((set) => Object.keys(set)))].toSorted();
}
