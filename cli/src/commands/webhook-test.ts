/** `squash webhook test`: sends one event now, and says what came of it. */
import type { WebhookTest } from '@squash/contract/webhooks';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { webhooksPath } from './webhook-ls.ts';

export async function run(call: Call): Promise<number> {
  const [id = ''] = call.positionals;
  const tried = await call.client.post<WebhookTest>(webhooksPath(id, 'test'), {});
  if (call.json) printJson(tried);
  else if (tried.delivered) printLine(`taken with status ${tried.status} in ${tried.duration_ms} ms`);
  else printLine(`not taken: ${visible(tried.error ?? '')}`);
  return tried.delivered ? exitCodes.ok : exitCodes.failed;
}
