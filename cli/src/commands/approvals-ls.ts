/** `squash approvals ls`: what waits for a person, and what was decided lately. */
import type { ApprovalInfo } from '@squash/contract/approvals';
import { type ApprovalPage, approvalsPath, wantedText } from '../approvals.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatAge, printJson } from '../output/print.ts';
import { printTable, type Style } from '../output/table.ts';

const styles: Readonly<Partial<Record<ApprovalInfo['state'], Style>>> = {
  pending: 'yellow',
  denied: 'red',
  timed_out: 'red',
};

export async function run({ client, flags, json }: Call): Promise<number> {
  const query = {
    state: flags.text('state'),
    sandbox: flags.text('sandbox'),
    limit: flags.integer('limit', { min: 1, max: 1_000 }),
  };
  const page = await client.get<ApprovalPage>(approvalsPath(query));
  if (json) printJson(page);
  else {
    printTable<ApprovalInfo>(
      [
        { title: 'ID', text: ({ id }) => id },
        { title: 'AGE', text: (each) => formatAge(each.asked_at), align: 'right' },
        { title: 'SANDBOX', text: ({ sandbox }) => sandbox },
        { title: 'STATE', text: stateText, style: ({ state }) => styles[state] },
        { title: 'WANTED', text: wantedText, fits: true },
      ],
      page.items,
    );
  }
  return exitCodes.ok;
}

function stateText({ state, scope }: ApprovalInfo): string {
  return state === 'allowed' && scope !== null ? `allowed ${scope}` : state;
}
