/** What programs in sandboxes wait to connect to, as questions to a person. */
import type { ApprovalInfo } from '@squash/contract/approvals';
import { approvalPath, type ApprovalPage, approvalsPath, wantedText } from './approvals.ts';
import type { Question } from './approving.ts';
import type { Client } from './client/client.ts';
import { ruleText } from './commands/policy-show.ts';
import { visible } from './output/print.ts';

export interface Answer {
  readonly decision: object;
  /** When that has been taken. */
  readonly after?: (approval: ApprovalInfo, say: (became: string) => void) => Promise<void>;
}

export interface ApprovalAsking {
  /** Only what this one asks. */
  readonly sandbox: string | undefined;
  /** What asks, as a sentence begins with it. */
  readonly what: 'Sandbox' | 'Box';
  readonly keys: string;
  readonly answers: Readonly<Record<string, Answer>>;
}

export async function approvalQuestions(
  client: Client,
  asking: ApprovalAsking,
): Promise<readonly Question[]> {
  return (await pendingApprovals(client, asking.sandbox)).map((approval) => ({
    id: approval.id,
    askedAt: approval.asked_at,
    text: shown(asking, approval),
    keys: asking.keys,
    answers: Object.fromEntries(
      Object.entries(asking.answers).map(([key, { decision, after }]) => [
        key,
        async (say: (became: string) => void) => {
          const { state } = await client.post<ApprovalInfo>(approvalPath(approval.id), decision);
          say(state);
          await after?.(approval, say);
        },
      ]),
    ),
    over: async () => {
      const { state } = await client.get<ApprovalInfo>(approvalPath(approval.id));
      return state === 'pending' ? undefined : state;
    },
  }));
}

/** Oldest first. */
export async function pendingApprovals(client: Client, sandbox?: string): Promise<readonly ApprovalInfo[]> {
  const { items } = await client.get<ApprovalPage>(
    approvalsPath({ state: 'pending', limit: 1_000, sandbox }),
  );
  return items.toReversed();
}

function shown({ what }: ApprovalAsking, approval: ApprovalInfo): string {
  const seconds = Math.max(0, Math.ceil((Date.parse(approval.expires_at) - Date.now()) / 1_000));
  const lines = [
    `${what} ${visible(approval.sandbox)} waits for ${wantedText(approval)}`,
    `  asked by ${visible(approval.rule)}; refused in ${seconds} s`,
    `  for longer than once: allow ${ruleText(approval.grant)}`,
  ];
  if (approval.host?.includes('xn--') === true)
    lines.push('  "xn--" stands for letters of other scripts, which can look like others');
  return lines.join('\n');
}
