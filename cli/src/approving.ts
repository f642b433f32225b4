/**
 * Puts what waits for a person to him, one after the other. What a sandbox or an agent chose stands escaped on lines of its own, so that
 * it can't be taken for the question; `approval-questions.ts` and `action-questions.ts` make them.
 */
import { CliFailure, exitCodes } from './failure.ts';
import { printFailure, printLine, printNote } from './output/print.ts';
import { AskingTerminal } from './terminal/ask.ts';

const lookMs = 1_000;

export interface Question {
  /** No other's. */
  readonly id: string;
  readonly askedAt: string;
  /** Lines, shown as they are. */
  readonly text: string;
  /** What may be typed, with its meaning. */
  readonly keys: string;
  /** By what is typed; each says what became of it, as soon as it knows. */
  readonly answers: Readonly<Record<string, (say: (became: string) => void) => Promise<void>>>;
  /** What became of it; undefined: it waits. */
  readonly over: () => Promise<string | undefined>;
}

export interface Asking {
  /** All that wait. */
  readonly questions: () => Promise<readonly Question[]>;
  /** Goes on with what comes. */
  readonly isWatching: boolean;
}

/** Until nothing waits, or nobody is there to ask any more. @throws usage where there is no terminal */
export async function askPerson({ questions, isWatching }: Asking): Promise<'answered' | 'nobody'> {
  using terminal = new AskingTerminal();
  const put = new Set<string>();
  for (;;) {
    const [next] = (await questions())
      .filter(({ id }) => !put.has(id))
      .toSorted((one, other) => one.askedAt.localeCompare(other.askedAt));
    if (next !== undefined) {
      put.add(next.id);
      if (!(await putToPerson(next, terminal))) return 'nobody';
    } else if (isWatching) await later();
    else {
      if (put.size === 0) printNote('squash: nothing waits for an answer');
      return 'answered';
    }
  }
}

/** False: there is nobody to ask any more. */
async function putToPerson(question: Question, terminal: AskingTerminal): Promise<boolean> {
  printLine(question.text);
  const over = new AbortController();
  const done = new AbortController();
  const watching = watch(question, { over, done: done.signal });
  try {
    for (;;) {
      const typed = await terminal.ask(question.keys, over.signal);
      if (typed === undefined) return over.signal.aborted;
      if (typed === '') return true;
      const key = typed.toLowerCase();
      const answer = Object.hasOwn(question.answers, key) ? question.answers[key] : undefined;
      if (answer !== undefined) return await decide(answer);
    }
  } finally {
    done.abort();
    await watching;
  }
}

async function decide(answer: Question['answers'][string]): Promise<true> {
  try {
    await answer(printLine);
  } catch (failure) {
    // Too late, or not for this key: the next question is put all the same.
    if (!(failure instanceof CliFailure) || failure.exitCode === exitCodes.unreachable) throw failure;
    printFailure(failure, false);
  }
  return true;
}

/** Takes the question back when somebody else has answered it, or nobody in time. */
async function watch(
  question: Question,
  { over, done }: { readonly over: AbortController; readonly done: AbortSignal },
): Promise<void> {
  for (;;) {
    await later(done);
    if (done.aborted) return;
    let state: string | undefined;
    try {
      state = await question.over();
    } catch {
      // The daemon may be restarting; the answer will say what is wrong.
      continue;
    }
    if (state === undefined) continue;
    if (!done.aborted) printNote(`\nsquash: it is over: ${state}`);
    return over.abort();
  }
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
