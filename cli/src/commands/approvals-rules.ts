/** `squash approvals rules`: what is approved for every sandbox whose policy asks; with `--remove` that is asked for again. */
import type { StandingApproval } from '@squash/contract/approvals';
import { standingPath } from '../approvals.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatAge, printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';
import { ruleText } from './policy-show.ts';

export async function run({ client, flags, json }: Call): Promise<number> {
  const removed = flags.integer('remove', { min: 1, max: Number.MAX_SAFE_INTEGER });
  if (removed !== undefined) await client.delete(standingPath([`${removed}`]));
  const rules = await client.get<readonly StandingApproval[]>(standingPath());
  if (json) printJson(rules);
  else {
    printTable<StandingApproval>(
      [
        { title: 'ID', text: ({ id }) => `${id}`, align: 'right' },
        { title: 'AGE', text: (each) => formatAge(each.decided_at), align: 'right' },
        { title: 'BY', text: (each) => each.decided_by },
        { title: 'RULE', text: ({ rule }) => ruleText(rule) },
      ],
      rules,
    );
  }
  return exitCodes.ok;
}
