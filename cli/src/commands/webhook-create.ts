/** `squash webhook create`: has events sent to an address. Its secret is printed here and never again. */
import type { Webhook } from '@squash/contract/webhooks';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { webhooksPath } from './webhook-ls.ts';

export async function run(call: Call): Promise<number> {
  const [url = ''] = call.positionals;
  const { flags } = call;
  const made = await call.client.post<Webhook & { readonly secret: string }>(webhooksPath(), {
    url,
    types: flags.list('type').flatMap((list) => list.split(',')),
    ...(flags.isSet('owner') && { owner: flags.text('owner') }),
  });
  if (call.json) printJson(made);
  else printLine(`${made.id}\n${made.secret}`);
  return exitCodes.ok;
}
