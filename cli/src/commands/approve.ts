/**
 * `squash approve`: shows what waits for a person, one after the other, and asks. `--watch` goes on with what comes.
 *
 * What a sandbox chose stands escaped on lines of its own, so that it can't be taken for the question.
 */
import type { ApprovalInfo } from '@squash/contract/approvals';
import { approvalPath, type ApprovalPage, approvalsPath, wantedText } from '../approvals.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printFailure, printLine, printNote, visible } from '../output/print.ts';
import { AskingTerminal } from '../terminal/ask.ts';
import { ruleText } from './policy-show.ts';

const lookMs = 1_000;

const answers: Readonly<Record<string, object>> = {
  y: { decision: 'allow', scope: 'once' },
  s: { decision: 'allow', scope: 'sandbox' },
  a: { decision: 'allow', scope: 'always' },
  n: { decision: 'deny' },
};
const keys = '[y] once  [s] for this sandbox  [a] always, for all that ask  [n] deny  [Enter] later: ';

export async function run(call: Call): Promise<number> {
  using terminal = new AskingTerminal();
  const put = new Set<string>();
  for (;;) {
    const [next] = (await pending(call)).filter(({ id }) => !put.has(id));
    if (next !== undefined) {
      put.add(next.id);
      if (!(await putToPerson(call, terminal, next))) return exitCodes.ok;
    } else if (call.flags.isSet('watch')) await later();
    else {
      if (put.size === 0) printNote('squash: nothing waits for an answer');
      return exitCodes.ok;
    }
  }
}

/** Oldest first. */
async function pending(call: Call): Promise<readonly ApprovalInfo[]> {
  const sandbox = call.flags.text('sandbox');
  const { items } = await call.client.get<ApprovalPage>(
    approvalsPath({ state: 'pending', limit: 1_000, sandbox }),
  );
  return items.toReversed();
}

/** False: there is nobody to ask any more. */
async function putToPerson(call: Call, terminal: AskingTerminal, approval: ApprovalInfo): Promise<boolean> {
  printLine(shown(approval));
  const over = new AbortController();
  const done = new AbortController();
  const watching = watch(call, approval.id, { over, done: done.signal });
  try {
    for (;;) {
      const answer = await terminal.ask(keys, over.signal);
      if (answer === undefined) return over.signal.aborted;
      const decision = answers[answer.toLowerCase()];
      if (answer === '') return true;
      if (decision !== undefined) return await decide(call, approval, decision);
    }
  } finally {
    done.abort();
    await watching;
  }
}

async function decide(call: Call, { id }: ApprovalInfo, decision: object): Promise<true> {
  try {
    const { state } = await call.client.post<ApprovalInfo>(approvalPath(id), decision);
    printLine(state);
  } catch (failure) {
    // Too late, or not for this key: the next question is put all the same.
    if (!(failure instanceof CliFailure) || failure.exitCode === exitCodes.unreachable) throw failure;
    printFailure(failure, false);
  }
  return true;
}

/** Takes the question back when somebody else has answered it, or nobody in time. */
async function watch(
  call: Call,
  id: string,
  { over, done }: { readonly over: AbortController; readonly done: AbortSignal },
): Promise<void> {
  for (;;) {
    await later(done);
    if (done.aborted) return;
    let state: string;
    try {
      ({ state } = await call.client.get<ApprovalInfo>(approvalPath(id)));
    } catch {
      // The daemon may be restarting; the answer will say what is wrong.
      continue;
    }
    if (state === 'pending') continue;
    if (!done.aborted) printNote(`\nsquash: it is over: ${state}`);
    return over.abort();
  }
}

function shown(approval: ApprovalInfo): string {
  const seconds = Math.max(0, Math.ceil((Date.parse(approval.expires_at) - Date.now()) / 1_000));
  const lines = [
    `Sandbox ${visible(approval.sandbox)} waits for ${wantedText(approval)}`,
    `  asked by ${visible(approval.rule)}; refused in ${seconds} s`,
    `  for longer than once: allow ${ruleText(approval.grant)}`,
  ];
  if (approval.host?.includes('xn--') === true)
    lines.push('  "xn--" stands for letters of other scripts, which can look like others');
  return lines.join('\n');
}

async function later(signal?: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, lookMs);
  const leave = (): void => resolve();
  signal?.addEventListener('abort', leave, { once: true });
  if (signal?.aborted === true) leave();
  await promise;
  clearTimeout(timer);
  signal?.removeEventListener('abort', leave);
}
