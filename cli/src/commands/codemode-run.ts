/**
 * `squash codemode run`: one program, with the tools of an `mcpServers` file. Works without a daemon. The result goes to standard output, what the
 * program logs to standard error as it comes.
 */
import { readFileSync } from 'node:fs';
import {
  type Approval,
  type ApprovalRequest,
  type ExecuteResult,
  toolTreeOf,
  withSearch,
} from '@squash/codemode';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, fileProblem } from '../failure.ts';
import { printJson, printLine, printNote, visible, visibleLines } from '../output/print.ts';
import { AskingTerminal } from '../terminal/ask.ts';
import { asFailure, openExecutor, openServers, refuseIdle } from './codemode-setup.ts';

/** Of a call's arguments: what a person reads before an answer. */
const argumentCharsMax = 2_000;

export async function run(call: Call): Promise<number> {
  const code = readCode(call.positionals[0] ?? '-');
  const input = readInput(call.flags.text('input'));
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  await using executor = await openExecutor(call, 0);
  await using servers = await openServers(call);
  const ask = call.flags.list('ask');
  refuseIdle('ask', ask, servers);
  using terminal = ask.length === 0 ? undefined : new AskingTerminal();
  const log = new ProgramLog(ask.length > 0);
  try {
    const result = await executor.execute(code, toolTreeOf(withSearch(servers.entries)), {
      codec: 'json',
      signal: stop.signal,
      ...(input !== undefined && { input }),
      ...(terminal !== undefined && { policy: { ask }, approve: approving(terminal, log) }),
      onEvent: (event) => {
        if (event.type === 'log' && !call.json) log.tell(event.text);
      },
    });
    return show(call, result);
  } catch (failure) {
    throw asFailure(failure);
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

/**
 * What the program logs. It goes on while a person is asked about one of its calls, and may log another question: nothing of it comes between a
 * question and its answer, nor looks like one.
 */
class ProgramLog {
  readonly #mark: string;
  /** While a question is open. */
  #waiting: string[] | undefined;

  constructor(asks: boolean) {
    this.#mark = asks ? 'log: ' : '';
  }

  /** As many as a log holds. */
  tell(text: string): void {
    if (this.#waiting === undefined) printNote(visibleLines(text).replaceAll(/^/gm, this.#mark));
    else this.#waiting.push(text);
  }

  async behind<T>(question: () => Promise<T>): Promise<T> {
    this.#waiting = [];
    try {
      return await question();
    } finally {
      const waited = this.#waiting;
      this.#waiting = undefined;
      for (const text of waited) this.tell(text);
    }
  }
}

/** One question at a time: calls that come together wait for each other. */
function approving(
  terminal: AskingTerminal,
  log: ProgramLog,
): (request: ApprovalRequest) => Promise<Approval> {
  let last: Promise<unknown> = Promise.resolve();
  return (request) => {
    const asked = last.then(() => log.behind(() => askOnce(terminal, request)));
    last = asked;
    return asked;
  };
}

async function askOnce(terminal: AskingTerminal, { tool, args, signal }: ApprovalRequest): Promise<Approval> {
  const text = JSON.stringify(args);
  const more = text.length - argumentCharsMax;
  const shown = visible(text.slice(0, argumentCharsMax));
  const rest = more > 0 ? `\n  and ${more} characters more, which are not shown` : '';
  const question = `The program calls ${visible(tool)}\n  with ${shown}${rest}\n[y] allow  [n] deny: `;
  const answer = await terminal.ask(question, signal);
  if (answer?.toLowerCase() === 'y') return { decision: 'allow' };
  return { decision: 'deny', reason: 'a person said no' };
}

function show(call: Call, result: ExecuteResult): number {
  if (call.json) {
    printJson(result);
    return result.error === undefined ? exitCodes.ok : exitCodes.failed;
  }
  if (result.truncated !== undefined)
    printNote(`squash: ${result.truncated.logLines} more lines were logged than a log holds`);
  for (const warning of result.warnings ?? []) printNote(`squash: ${visible(warning)}`);
  for (const block of result.output ?? [])
    printLine(block.type === 'text' ? block.text : `[${block.mimeType}, ${block.data.length} characters]`);
  if (result.errorInfo !== undefined)
    throw new CliFailure(result.errorInfo.kind, result.errorInfo.stack ?? result.errorInfo.message);
  if (result.result !== undefined)
    printLine(typeof result.result === 'string' ? result.result : JSON.stringify(result.result, null, 2));
  return exitCodes.ok;
}

function readCode(path: string): string {
  try {
    return readFileSync(path === '-' ? 0 : path, 'utf8');
  } catch (cause) {
    throw new CliFailure('file_unreadable', `can't read "${path}": ${fileProblem(cause)}`);
  }
}

function readInput(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new CliFailure('usage', '--input takes JSON', exitCodes.usage);
  }
}
