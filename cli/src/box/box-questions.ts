/**
 * What boxes ask, and what a person may answer: once, for this box, or for every box of his over the same repository. Both who asks in a
 * terminal of its own (`squash box approve`) and the terminal on which the box runs ask by this.
 */
import type { ApprovalInfo } from '@squash/contract/approvals';
import { type Answer, approvalQuestions } from '../approval-questions.ts';
import type { Question } from '../approving.ts';
import { apiPath } from '../client/client.ts';
import { followEvents } from '../client/follow.ts';
import { CliFailure } from '../failure.ts';
import { visible } from '../output/print.ts';
import type { QuestionSource } from '../terminal/run-questions.ts';
import { listBoxes } from './boxes.ts';
import type { BoxDaemon } from './daemon.ts';
import { asPolicyFailure, placesOf } from './policy.ts';
import { repositoryOf } from './record.ts';

const keys = '[y] once  [b] for this box  [p] for all boxes over this repository  [n] deny  [Enter] later: ';

/** @param sandbox only what this one asks */
export async function boxQuestions(daemon: BoxDaemon, sandbox?: string): Promise<readonly Question[]> {
  const answers: Readonly<Record<string, Answer>> = {
    y: { decision: { decision: 'allow', scope: 'once' } },
    b: { decision: { decision: 'allow', scope: 'sandbox' } },
    p: {
      decision: { decision: 'allow', scope: 'sandbox' },
      after: async (approval, say) => say(`kept in ${visible(await keep(daemon, approval))}`),
    },
    n: { decision: { decision: 'deny' } },
  };
  return await approvalQuestions(daemon.client, { sandbox, what: 'Box', keys, answers });
}

/** The rule becomes one of the person's own, for the repository that the box was made over. @returns in which file */
async function keep(daemon: BoxDaemon, { sandbox, grant }: ApprovalInfo): Promise<string> {
  const box = (await listBoxes(daemon)).find(({ id }) => id === sandbox);
  const repository = box === undefined ? undefined : repositoryOf(box);
  if (repository === undefined)
    throw new CliFailure('usage', `box ${sandbox} is over no repository: it holds for this box alone`);
  const { addAnswer } = await import('@squash/box/policy/answers');
  return await asPolicyFailure(() => addAnswer(placesOf(repository), grant));
}

/** For the terminal on which it runs. */
export function questionsOf(daemon: BoxDaemon, id: string): QuestionSource {
  // A box of this command line has asked nothing before it.
  let after = 0;
  return {
    questions: async () => await boxQuestions(daemon, id),
    follow: async (changed, over) => {
      const query = { follow: 'true', type: 'approval.requested,approval.decided', sandbox: id };
      await followEvents<true>(daemon.client, {
        what: 'questions',
        request: () => ({ path: apiPath(['v1', 'events'], { ...query, after }) }),
        onEvent: ({ id: event }) => {
          if (over.aborted) return true;
          after = Number(event ?? after);
          changed();
          return undefined;
        },
      });
    },
    elsewhere: `squash box approve ${id}`,
  };
}
