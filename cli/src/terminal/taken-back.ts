/**
 * The terminal as it is behind a program that had it and may be hostile. It may have made what is written invisible, sent it to another
 * screen, begun a sequence that swallows the next words, or asked the terminal for something, whose answer comes as if it had been typed;
 * and what was typed for it may come too late for it.
 */
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { printText, standardError } from '../output/print.ts';
import { RawTerminal } from './raw-terminal.ts';

/** The end of what was begun, of a string as well. Each of these is passed over by a terminal that does not know it. */
export const nothingBegun = '\u0018\u001b\\';

/** On whatever screen the terminal shows; the cursor stays where it is. */
export const ordinaryLetters = [
  // Margins, letters, colours, the cursor.
  '\u001b7\u001b[r\u001b8\u000f\u001b(B\u001b[0m\u001b[?5l\u001b[?7h\u001b[?25h',
  // Mouse, focus, pasted text, updates that are held back, other keyboards.
  '\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1004l\u001b[?2004l\u001b[?2026l\u001b[=0u\u001b[>4m',
  // A link, and letters in the colour of what is behind them.
  '\u001b]8;;\u001b\\\u001b]110\u001b\\\u001b]111\u001b\\',
].join('');

/** The ordinary screen, with the cursor where it is; then a soft reset, and the same for terminals that have no such reset. */
const ordinary = `${nothingBegun}\u001b[?47l\u001b[!p${ordinaryLetters}`;

/** As long as it takes to see that there is a question, and a terminal to answer another one. */
const settleMs = 300;
const lookMs = 20;

/** What is written is seen again. */
export function makeOrdinary(): void {
  if (process.env['TERM'] !== 'dumb') printText(standardError, ordinary);
}

/** The same, and what was typed until now, or answered by the terminal, is dropped. Standard input is a terminal. */
export async function takeBack(): Promise<void> {
  makeOrdinary();
  const terminal = RawTerminal.enter();
  try {
    await dropTyped();
  } finally {
    terminal.restore();
  }
}

async function dropTyped(): Promise<void> {
  let file: number;
  try {
    file = openSync('/dev/tty', constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    // No controlling terminal: the question says so.
    return;
  }
  const piece = Buffer.alloc(4_096);
  try {
    for (const endMs = performance.now() + settleMs; performance.now() < endMs; await sleep(lookMs)) {
      try {
        // The end of it is told by the question.
        if (readSync(file, piece) === 0) return;
      } catch {
        // Nothing is there, or no terminal any more.
      }
    }
  } finally {
    closeSync(file);
  }
}
