/**
 * Single entries of a policy's lists: put in, or taken out. The policy is read, changed and set again whole, so a change
 * that somebody else makes in that moment is lost; the answer shows what holds.
 */
import { everythingPublic, formatPattern, nothing, parsePattern } from '@squash/contract/destination';
import type { SandboxPolicy } from '@squash/contract/egress';
import type { Call } from '../command.ts';
import { CliFailure, usageFailure } from '../failure.ts';
import { printNote } from '../output/print.ts';
import { policyPath, printChanged } from './policy-show.ts';

type Policy = SandboxPolicy['policy'];
type List = 'allow' | 'deny' | 'ask';

export async function changeEntries(list: List, call: Call): Promise<number> {
  const [id = '', ...words] = call.positionals;
  if (words.includes(nothing)) {
    throw usageFailure(`"${nothing}" is no entry: "squash policy set ${id} ${nothing}" allows nothing`);
  }
  const { policy } = await call.client.get<SandboxPolicy>(policyPath(id));
  const entries = call.flags.isSet('remove') ? without(list, policy, words) : withAll(list, policy, words);
  const changed = { ...policy, [list]: entries };
  if (list === 'ask' && !call.flags.isSet('remove') && policy.allow.some((rule) => entries.includes(rule)))
    printNote('squash: what allow names as narrowly is allowed without a question');
  const shown = await call.client.put<SandboxPolicy>(policyPath(id), changed);
  // Behind the answer: where it was refused nothing has changed.
  if (list === 'allow' && !call.flags.isSet('remove') && policy.allow.includes(everythingPublic)) {
    printNote(
      `squash: everything public stays allowed: "squash policy allow --remove … '${everythingPublic}'" ends that`,
    );
  }
  return printChanged(call, shown);
}

function withAll(list: List, policy: Policy, words: readonly string[]): readonly unknown[] {
  const present: readonly unknown[] = policy[list] ?? [];
  const added = words.map(canonical).filter((word) => !present.includes(word));
  return [...present.filter((rule) => rule !== nothing), ...new Set(added)];
}

function without(list: List, policy: Policy, words: readonly string[]): readonly unknown[] {
  let left: readonly unknown[] = policy[list] ?? [];
  for (const word of words.map(canonical)) {
    if (!left.includes(word)) {
      throw new CliFailure(
        'not_found',
        `${list} has no entry "${word}": "squash policy show" lists them; one with ports, methods or paths is changed with "squash policy set --file"`,
      );
    }
    left = left.filter((rule) => rule !== word);
  }
  // An empty list could mean either.
  return left.length === 0 && list === 'allow' ? [nothing] : left;
}

/** As the daemon stores it. What is no destination it refuses with its own words. */
function canonical(word: string): string {
  const parsed = parsePattern(word);
  return parsed.ok ? formatPattern(parsed.pattern) : word;
}
