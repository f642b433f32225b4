/** Asks before something that can't be undone. Without a terminal there is nobody to ask: the call fails. */
import { closeSync, openSync, readSync } from 'node:fs';
import { CliFailure, usageFailure } from '../failure.ts';
import { printText, standardError } from '../output/print.ts';

export function confirm(question: string): void {
  if (/^y(es)?$/i.test(askOnTerminal(`${question} [y/N] `, '; give --yes'))) return;
  throw new CliFailure('aborted', 'nothing was done');
}

/** One line, without blanks around it; `q` at the end of the input. @throws usage where there is no terminal */
export function askOnTerminal(question: string, otherwise = ''): string {
  const terminal = openTerminal();
  if (terminal === undefined) throw usageFailure(`there is no terminal to ask on${otherwise}`);
  try {
    printText(standardError, question);
    const answer = Buffer.alloc(64);
    const bytes = readSync(terminal, answer);
    return bytes === 0 ? 'q' : answer.toString('utf8', 0, bytes).trim();
  } finally {
    closeSync(terminal);
  }
}

/** The terminal itself and not standard input, which may be a list of ids. */
function openTerminal(): number | undefined {
  try {
    return openSync('/dev/tty', 'r');
  } catch {
    // No controlling terminal.
    return undefined;
  }
}
