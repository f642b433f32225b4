/** Asks before something that can't be undone. Without a terminal there is nobody to ask: the call fails. */
import { closeSync, openSync, readSync } from 'node:fs';
import { CliFailure, usageFailure } from '../failure.ts';
import { printText, standardError } from '../output/print.ts';

export function confirm(question: string): void {
  const terminal = openTerminal();
  if (terminal === undefined) throw usageFailure('there is no terminal to ask on; give --yes');
  try {
    printText(standardError, `${question} [y/N] `);
    const answer = Buffer.alloc(64);
    const bytes = readSync(terminal, answer);
    if (/^y(es)?$/i.test(answer.toString('utf8', 0, bytes).trim())) return;
  } finally {
    closeSync(terminal);
  }
  throw new CliFailure('aborted', 'nothing was done');
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
