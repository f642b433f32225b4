/** `squash approve`: shows what waits for a person, one after the other, and asks. `--watch` goes on with what comes. */
import { actionQuestions } from '../action-questions.ts';
import { type Answer, approvalQuestions } from '../approval-questions.ts';
import { askPerson } from '../approving.ts';
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
  const sandbox = flags.text('sandbox');
  const questions = async () => [
    ...(await approvalQuestions(client, { sandbox, what: 'Sandbox', keys, answers })),
    ...(sandbox === undefined ? await actionQuestions(client) : []),
  ];
  await askPerson({ questions, isWatching: flags.isSet('watch') });
  return exitCodes.ok;
}
