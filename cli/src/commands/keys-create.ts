/** `squash keys create`: makes a key. Its token goes to standard output and nothing else does, so that a variable or a file takes it. */
import type { KeyBody, KeyCreated } from '@squash/contract/keys';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { momentOf } from '../moment.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';
import { keysPath } from './keys-ls.ts';

export async function run(call: Call): Promise<number> {
  const [name = ''] = call.positionals;
  const { flags } = call;
  const owner = flags.text('owner');
  const scope = flags.text('scope');
  if (owner === undefined || scope === undefined)
    throw usageFailure('a key needs --owner OWNER and --scope read, exec, manage or admin');
  const expires = flags.text('expires');
  const made = await call.client.post<KeyCreated>(keysPath(), {
    name,
    owner,
    // The daemon says which there are.
    scope: scope as KeyBody['scope'],
    ...(expires !== undefined && { expires_at: momentOf(expires, 1, 'expires') }),
  } satisfies KeyBody);
  if (call.json) printJson(made);
  else {
    printLine(made.token);
    printNote(`${made.id}: shown this once; remove it with: squash keys rm ${visible(made.id)}`);
  }
  return exitCodes.ok;
}
