/** `squash approvals allow` and `squash approvals deny`: one decision, by its id. */
import type { ApprovalInfo } from '@squash/contract/approvals';
import { approvalPath, wantedText } from '../approvals.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';

export async function decide({ client, positionals, flags, json }: Call, decision: string): Promise<number> {
  const reason = flags.text('reason');
  const answer = await client.post<ApprovalInfo>(approvalPath(positionals[0] ?? ''), {
    decision,
    ...(decision === 'allow' && flags.isSet('scope') && { scope: flags.text('scope') }),
    ...(reason !== undefined && { reason }),
  });
  if (json) printJson(answer);
  else printLine(`${answer.state}  ${wantedText(answer)}`);
  return exitCodes.ok;
}
