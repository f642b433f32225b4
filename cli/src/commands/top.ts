/** `squash top`: what uses the machine, the busiest first, in place on a terminal. */
import { isatty } from 'node:tty';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine, printText, standardOutput } from '../output/print.ts';
import { printUsage, usageOfAll, type UsageRow, withoutHistory } from './stats.ts';

/** As often as the daemon measures. */
const everyMs = 2_000;
/** To the top left; what follows is written over what was there, which flickers less than clearing it first. */
const home = '\u001b[H';
const clearBelow = '\u001b[J';
/** A line that is too long is cut by the terminal while a frame is written: what it took two lines for would push the rest out. */
const cutLines = '\u001b[?7l';
const wrapLines = '\u001b[?7h';
const clearScreen = '\u001b[2J';
/** The line of sums, the table's head, and the line the cursor stays in. */
const otherLines = 3;

export async function run({ client, flags, json }: Call): Promise<number> {
  const isLive = !json && !flags.isSet('once') && isatty(standardOutput);
  if (isLive) printText(standardOutput, clearScreen);
  for (;;) {
    const rows = (await usageOfAll(client)).toSorted(byUse);
    if (json) {
      printJson(rows.map(withoutHistory));
      return exitCodes.ok;
    }
    if (isLive) printText(standardOutput, home + cutLines);
    printLine(`${sums(rows)}${isLive ? '\u001b[K' : ''}`);
    // A terminal that was never told its size says 0.
    const room = isLive ? (process.stdout.rows || rows.length + otherLines) - otherLines : rows.length;
    printUsage(rows.slice(0, Math.max(1, room)), isLive ? '\u001b[K' : '');
    if (!isLive) return exitCodes.ok;
    printText(standardOutput, clearBelow + wrapLines);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

function byUse(one: UsageRow, other: UsageRow): number {
  const busy = (other.cpu_percent ?? 0) - (one.cpu_percent ?? 0);
  return busy === 0 ? (other.memory_bytes ?? 0) - (one.memory_bytes ?? 0) : busy;
}

function sums(rows: readonly UsageRow[]): string {
  const sum = (of: (row: UsageRow) => number | null): number =>
    rows.reduce((total, row) => total + (of(row) ?? 0), 0);
  const cpu = sum(({ cpu_percent: percent }) => percent);
  const memory = formatBytes(sum(({ memory_bytes: bytes }) => bytes));
  const disk = formatBytes(sum(({ disk_bytes: bytes }) => bytes));
  const time = new Date().toTimeString().slice(0, 8);
  return `${time}  sandboxes: ${rows.length}  processor: ${cpu.toFixed(1)} %  memory: ${memory}  disk: ${disk}`;
}
