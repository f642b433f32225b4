/**
 * Shows what waits for a person, one after the other, and asks. What a sandbox chose stands escaped on lines of its own, so that it
 * can't be taken for the question.
 */
import type { ApprovalInfo } from '@squash/contract/approvals';
import { approvalPath, type ApprovalPage, approvalsPath, wantedText } from './approvals.ts';
import type { Client } from './client/client.ts';
import { ruleText } from './commands/policy-show.ts';
import { CliFailure, exitCodes } from './failure.ts';
import { printFailure, printLine, printNote, visible } from './output/print.ts';
import { AskingTerminal } from './terminal/ask.ts';

const lookMs = 1_000;

export interface Asking {
  readonly client: Client;
  /** Only what this one asks. */
  readonly sandbox: string | undefined;
  /** Goes on with what comes. */
  readonly isWatching: boolean;
  /** What asks, as a sentence begins with it. */
  readonly what: 'Sandbox' | 'Box';
  /** What may be typed, with its meaning. */
  readonly keys: string;
  readonly answers: Readonly<Record<string, Answer>>;
}

export interface Answer {
  readonly decision: object;
  /** When that has been taken. */
  readonly after?: (approval: ApprovalInfo) => Promise<void>;
}

/** Until nothing waits, or nobody is there to ask any more. @throws usage where there is no terminal */
export async function askPerson(asking: Asking): Promise<'answered' | 'nobody'> {
  using terminal = new AskingTerminal();
  const put = new Set<string>();
  for (;;) {
    const [next] = (await pendingApprovals(asking.client, asking.sandbox)).filter(({ id }) => !put.has(id));
    if (next !== undefined) {
      put.add(next.id);
      if (!(await putToPerson(asking, terminal, next))) return 'nobody';
    } else if (asking.isWatching) await later();
    else {
      if (put.size === 0) printNote('squash: nothing waits for an answer');
      return 'answered';
    }
  }
}

/** Oldest first. */
export async function pendingApprovals(client: Client, sandbox?: string): Promise<readonly ApprovalInfo[]> {
  const { items } = await client.get<ApprovalPage>(
    approvalsPath({ state: 'pending', limit: 1_000, sandbox }),
  );
  return items.toReversed();
}

/** False: there is nobody to ask any more. */
async function putToPerson(
  asking: Asking,
  terminal: AskingTerminal,
  approval: ApprovalInfo,
): Promise<boolean> {
  printLine(shown(asking, approval));
  const over = new AbortController();
  const done = new AbortController();
  const watching = watch(asking, approval.id, { over, done: done.signal });
  try {
    for (;;) {
      const answer = await terminal.ask(asking.keys, over.signal);
      if (answer === undefined) return over.signal.aborted;
      const meant = asking.answers[answer.toLowerCase()];
      if (answer === '') return true;
      if (meant !== undefined) return await decide(asking, approval, meant);
    }
  } finally {
    done.abort();
    await watching;
  }
}

async function decide(
  { client }: Asking,
  approval: ApprovalInfo,
  { decision, after }: Answer,
): Promise<true> {
  try {
    const { state } = await client.post<ApprovalInfo>(approvalPath(approval.id), decision);
    printLine(state);
    await after?.(approval);
  } catch (failure) {
    // Too late, or not for this key: the next question is put all the same.
    if (!(failure instanceof CliFailure) || failure.exitCode === exitCodes.unreachable) throw failure;
    printFailure(failure, false);
  }
  return true;
}

/** Takes the question back when somebody else has answered it, or nobody in time. */
async function watch(
  { client }: Asking,
  id: string,
  { over, done }: { readonly over: AbortController; readonly done: AbortSignal },
): Promise<void> {
  for (;;) {
    await later(done);
    if (done.aborted) return;
    let state: string;
    try {
      ({ state } = await client.get<ApprovalInfo>(approvalPath(id)));
    } catch {
      // The daemon may be restarting; the answer will say what is wrong.
      continue;
    }
    if (state === 'pending') continue;
    if (!done.aborted) printNote(`\nsquash: it is over: ${state}`);
    return over.abort();
  }
}

function shown({ what }: Asking, approval: ApprovalInfo): string {
  const seconds = Math.max(0, Math.ceil((Date.parse(approval.expires_at) - Date.now()) / 1_000));
  const lines = [
    `${what} ${visible(approval.sandbox)} waits for ${wantedText(approval)}`,
    `  asked by ${visible(approval.rule)}; refused in ${seconds} s`,
    `  for longer than once: allow ${ruleText(approval.grant)}`,
  ];
  if (approval.host?.includes('xn--') === true)
    lines.push('  "xn--" stands for letters of other scripts, which can look like others');
  return lines.join('\n');
}

export async function later(signal?: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, lookMs);
  const leave = (): void => resolve();
  signal?.addEventListener('abort', leave, { once: true });
  if (signal?.aborted === true) leave();
  await promise;
  clearTimeout(timer);
  signal?.removeEventListener('abort', leave);
}
