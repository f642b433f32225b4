/** `squash whoami`: the key that this call is made with, and what its owner may have and has. */
import type { KeySelf } from '@squash/contract/keys';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { keysPath } from './keys-ls.ts';
import { printQuota } from './quota-show.ts';

export async function run(call: Call): Promise<number> {
  const self = await call.client.get<KeySelf>(keysPath(['self']));
  if (call.json) printJson(self);
  else if (self.key === null || self.quota === null || self.use === null) printLine('the operator');
  else {
    const until = self.expires_at === null ? '' : `, until ${self.expires_at}`;
    printLine(
      `key ${visible(self.name ?? '')} (${self.key}) of ${visible(self.owner ?? '')}, scope ${self.scope}${until}`,
    );
    printQuota(self.quota, self.use);
  }
  return exitCodes.ok;
}
