/** `squash approve`: shows what waits for a person, one after the other, and asks. `--watch` goes on with what comes. */
import { type Answer, askPerson } from '../approving.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';

const answers: Readonly<Record<string, Answer>> = {
  y: { decision: { decision: 'allow', scope: 'once' } },
  s: { decision: { decision: 'allow', scope: 'sandbox' } },
  a: { decision: { decision: 'allow', scope: 'always' } },
  n: { decision: { decision: 'deny' } },
};
const keys = '[y] once  [s] for this sandbox  [a] always, for all that ask  [n] deny  [Enter] later: ';

export async function run({ client, flags }: Call): Promise<number> {
  const isWatching = flags.isSet('watch');
  await askPerson({ client, sandbox: flags.text('sandbox'), isWatching, what: 'Sandbox', keys, answers });
  return exitCodes.ok;
}
