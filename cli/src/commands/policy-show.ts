/** `squash policy show`: what a sandbox may reach, rule by rule under the names that refusals give them. */
import type { SandboxPolicy } from '@squash/contract/egress';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';

type Policy = SandboxPolicy['policy'];
type Later = 'own_secrets' | 'upstream' | 'own_secret_hosts' | 'pending';
/** What a daemon of an earlier version does not know it leaves out. */
type Shown = Omit<SandboxPolicy, Later> & Partial<Pick<SandboxPolicy, Later>>;

export async function run(call: Call): Promise<number> {
  const shown = await call.client.get<SandboxPolicy>(policyPath(call.positionals[0] ?? ''));
  if (call.json) printJson(shown);
  else printPolicy(shown);
  return exitCodes.ok;
}

export function policyPath(id: string, more: readonly string[] = []): string {
  return apiPath(['v1', 'sandboxes', id, 'policy', ...more]);
}

/** What a change of the policy answers. Whoever relies on it must see that it does not hold yet: then it has failed. */
export function printChanged(call: Call, shown: SandboxPolicy): number {
  if (call.json) printJson(shown);
  else printPolicy(shown);
  return shown.in_force ? exitCodes.ok : exitCodes.failed;
}

export function printPolicy({
  policy,
  ceiling,
  secrets,
  own_secrets: own = [],
  upstream = null,
  own_secret_hosts: ownHosts = {},
  pending = null,
}: Shown): void {
  printRules('', policy);
  if (ceiling !== null) printRules('ceiling ', ceiling);
  printLine(`secrets: ${secrets === 'all' ? 'all' : secrets.map(visible).join(', ') || 'none'}`);
  if (own.length > 0)
    printLine(`own secrets: ${own.map((name) => ownText(name, ownHosts[name])).join(', ')}`);
  if (upstream !== null) printLine(`goes out through: ${visible(upstream)}`);
  if (pending !== null) {
    printNote(
      `squash: this does not hold yet, and nothing new is reached until it does: ${visible(pending)}`,
    );
  }
}

function ownText(name: string, hosts: readonly string[] = []): string {
  return visible(hosts.length === 0 ? name : `${name} (${hosts.join(' ')})`);
}

function printRules(prefix: string, { allow, deny, ask = [], dns, ask_timeout_ms }: Policy): void {
  for (const [at, rule] of allow.entries()) printLine(`${prefix}allow[${at}] ${ruleText(rule)}`);
  for (const [at, rule] of deny.entries()) printLine(`${prefix}deny[${at}] ${ruleText(rule)}`);
  for (const [at, rule] of ask.entries()) printLine(`${prefix}ask[${at}] ${ruleText(rule)}`);
  if (ask_timeout_ms !== undefined) printLine(`${prefix}waits ${ask_timeout_ms / 1_000} s for an answer`);
  if (dns !== 'refuse') printLine(`${prefix}dns ${dns}`);
}

/** A destination, or what an object says in one line. */
export function ruleText(rule: unknown): string {
  if (typeof rule === 'string') return visible(rule);
  const words = Object.entries(rule as Readonly<Record<string, readonly string[]>>).map(([name, values]) =>
    name === 'to' ? values.join(' ') : `${name} ${values.join(',')}`,
  );
  return visible(words.join(' '));
}
