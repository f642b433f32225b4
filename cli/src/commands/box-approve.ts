/**
 * `squash box approve`: shows what boxes ask, one question after the other, and has it answered: once, for this box, or for every box of
 * this person over the same repository.
 */
import type { ApprovalInfo } from '@squash/contract/approvals';
import { type Answer, approvalQuestions, pendingApprovals } from '../approval-questions.ts';
import { askPerson, later } from '../approving.ts';
import { findBox, listBoxes } from '../box/boxes.ts';
import { type BoxDaemon, runningDaemon, withBoxDaemon } from '../box/daemon.ts';
import { repositoryOf } from '../box/record.ts';
import { asPolicyFailure, placesOf } from '../box/policy.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printNote, visible } from '../output/print.ts';

const keys = '[y] once  [b] for this box  [p] for all boxes over this repository  [n] deny  [Enter] later: ';

export async function run(call: Call): Promise<number> {
  const [word] = call.positionals;
  const isWatching = call.flags.isSet('watch');
  if (call.json) return await list(call, word);
  if (word !== undefined) {
    const { daemon, box } = await findBox(call, word);
    await askOf(daemon, { isWatching, sandbox: box.id });
    return exitCodes.ok;
  }
  for (;;) {
    const daemon = await daemonNow(call);
    const end =
      daemon && (await askOf(daemon, { isWatching, sandbox: undefined }).catch(unlessEnded(isWatching)));
    if (daemon === undefined && !isWatching) printNote('squash: nothing waits for an answer');
    if (end === 'nobody' || !isWatching) return exitCodes.ok;
    // It ends with the last box, and another one comes with the next.
    await later();
  }
}

/** What waits, for programs: they answer by the API. */
async function list(call: Call, word: string | undefined): Promise<number> {
  if (word === undefined) {
    const daemon = await daemonNow(call);
    printJson(daemon === undefined ? [] : await pendingApprovals(daemon.client));
  } else {
    const { daemon, box } = await findBox(call, word);
    printJson(await pendingApprovals(daemon.client, box.id));
  }
  return exitCodes.ok;
}

/** Who waits for questions starts no daemon: a box that asks has one. */
async function daemonNow(call: Call): Promise<BoxDaemon | undefined> {
  if (!call.flags.isSet('socket') && !call.flags.isSet('url')) return await runningDaemon();
  return await withBoxDaemon(call, 'list', (daemon) => Promise.resolve(daemon));
}

async function askOf(
  daemon: BoxDaemon,
  { isWatching, sandbox }: { readonly isWatching: boolean; readonly sandbox: string | undefined },
): ReturnType<typeof askPerson> {
  const answers: Readonly<Record<string, Answer>> = {
    y: { decision: { decision: 'allow', scope: 'once' } },
    b: { decision: { decision: 'allow', scope: 'sandbox' } },
    p: { decision: { decision: 'allow', scope: 'sandbox' }, after: (approval) => keep(daemon, approval) },
    n: { decision: { decision: 'deny' } },
  };
  const questions = () => approvalQuestions(daemon.client, { sandbox, what: 'Box', keys, answers });
  return await askPerson({ questions, isWatching });
}

/** The rule becomes one of the person's own, for the repository that the box was made over. */
async function keep(daemon: BoxDaemon, { sandbox, grant }: ApprovalInfo): Promise<void> {
  const box = (await listBoxes(daemon)).find(({ id }) => id === sandbox);
  const repository = box === undefined ? undefined : repositoryOf(box);
  if (repository === undefined)
    throw new CliFailure('usage', `box ${sandbox} is over no repository: it holds for this box alone`);
  const { addAnswer } = await import('@squash/box/policy/answers');
  const path = await asPolicyFailure(() => addAnswer(placesOf(repository), grant));
  printNote(`squash: kept in ${visible(path)}`);
}

function unlessEnded(isWatching: boolean): (failure: unknown) => undefined {
  return (failure) => {
    const isEnd = failure instanceof CliFailure && failure.exitCode === exitCodes.unreachable;
    if (!isWatching || !isEnd) throw failure;
    return undefined;
  };
}
