/**
 * `squash box approve`: shows what boxes ask, one question after the other, and has it answered: once, for this box, or for every box of
 * this person over the same repository.
 */
import { pendingApprovals } from '../approval-questions.ts';
import { askPerson, later } from '../approving.ts';
import { boxQuestions } from '../box/box-questions.ts';
import { findBox } from '../box/boxes.ts';
import { type BoxDaemon, runningDaemon, withBoxDaemon } from '../box/daemon.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printNote } from '../output/print.ts';

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
  return await askPerson({ questions: () => boxQuestions(daemon, sandbox), isWatching });
}

function unlessEnded(isWatching: boolean): (failure: unknown) => undefined {
  return (failure) => {
    const isEnd = failure instanceof CliFailure && failure.exitCode === exitCodes.unreachable;
    if (!isWatching || !isEnd) throw failure;
    return undefined;
  };
}
