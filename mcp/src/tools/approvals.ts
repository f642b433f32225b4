/** Questions that wait for a person because of what a sandbox wants to reach. Here they are only told, never answered. */
import { type Approval, type Sandbox, SquashError } from '@squash/sdk';
import { cleanLine } from '../output/clean.ts';
import type { Session } from '../session.ts';

/** As many as one answer can tell. */
const toldMax = 10;

/** What was asked of a person since `begun` (as the daemon writes times), in sentences. */
export async function questionsSince(
  session: Session,
  box: Sandbox,
  begun: string,
): Promise<readonly string[]> {
  try {
    const asked: Approval[] = [];
    for await (const approval of session.options.squash.approvals.list({ sandbox: box.id, limit: 50 })) {
      if (approval.asked_at < begun || asked.length === toldMax) break;
      asked.push(approval);
    }
    return asked.filter(({ state }) => state !== 'allowed').map(sentence);
  } catch (error) {
    // The command is what was asked for; what a key may not look at is left out.
    if (error instanceof SquashError) return [];
    throw error;
  }
}

export function placeOf({ host, address, port, method, path }: Approval): string {
  const request = method === null ? '' : `${method} ${path ?? ''} of `;
  return cleanLine(`${request}${host ?? address}:${port}`);
}

function sentence(approval: Approval): string {
  const said: Readonly<Record<string, string>> = {
    pending: 'a person was asked and has not answered yet',
    denied: 'a person said no',
    timed_out: 'a person was asked and did not answer in time',
    withdrawn: 'a person was asked, and the program did not wait for the answer',
  };
  return `Network: ${placeOf(approval)}: ${said[approval.state] ?? approval.state}. request_network asks again.`;
}
