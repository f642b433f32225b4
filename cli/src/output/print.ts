/**
 * What commands print. Standard output carries what was asked for and nothing else; all other words go to
 * standard error.
 *
 * Text that came from elsewhere (a command line, an owner's name) may hold escape sequences that would move the
 * reader's cursor or worse: `visible` makes them harmless in everything laid out for people.
 */
import { writeSync } from 'node:fs';
import { CliFailure, errorCode, exitCodes } from '../failure.ts';
import { hinted } from '../hints.ts';

export const standardInput = 0;
export const standardOutput = 1;
export const standardError = 2;
export type Descriptor = typeof standardOutput | typeof standardError;

/** Between two tries to write to a reader that does not keep up. */
const slowReaderMs = 10;

/**
 * Writes to the descriptor itself: making Node's stream for it costs 2 ms of a call, and would block as well.
 * `squash ls | head -1` ends quietly, as programs that die of SIGPIPE do.
 */
export function printText(descriptor: Descriptor, text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (cause) {
      if (isReaderGone(cause)) process.exit(exitCodes.brokenPipe);
      // Of what goes wrong nobody could be told there: the exit code says it.
      if (errorCode(cause) === 'ENOSPC' && descriptor === standardError) return;
      if (errorCode(cause) === 'ENOSPC')
        throw new CliFailure('output_failed', 'the disk is full: the output is not whole');
      if (errorCode(cause) !== 'EAGAIN') throw cause;
      // Somebody made the descriptor non-blocking, and its reader is slow.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, slowReaderMs);
    }
  }
}

/** A pipe without a reader, or a terminal that was hung up. */
export function isReaderGone(cause: unknown): boolean {
  const code = errorCode(cause);
  return code === 'EPIPE' || code === 'EIO';
}

export function printLine(text: string): void {
  printText(standardOutput, `${text}\n`);
}

export function printNote(text: string): void {
  printText(standardError, `${text}\n`);
}

/**
 * One line on standard error; with `--json` one object, so that programs need not parse sentences.
 * A refusal may quote what a sandbox chose: a file's name, the words of its PID 1.
 */
export function printFailure({ code, message }: CliFailure, json: boolean): void {
  printNote(
    json
      ? jsonText({ error: { code, message } })
      : `squash: ${visibleLines(hinted(code, message))} (${visible(code)})`,
  );
}

export function printJson(value: unknown): void {
  printLine(jsonText(value, 2));
}

/** JSON leaves some characters as they are that terminals obey; escaped they mean the same to every parser. */
export function jsonText(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replace(
    /[\u007f-\u009f\p{Cf}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu,
    (characters) =>
      Array.from({ length: characters.length }, (_, index) => characters.charCodeAt(index))
        .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
        .join(''),
  );
}

/** A sign that an emoji is drawn in colours, or not, stays with it. */
const harmful =
  /[\p{Cc}\p{Cf}\u2028\u2029]|(?!(?<=\p{Emoji})[\ufe0e\ufe0f])\p{Default_Ignorable_Code_Point}/gu;

const harmfulOutput = new RegExp(String.raw`\u001b\[[\d;:]*m|${harmful.source}`, 'gu');

/** What steers a terminal, and what nobody sees: two names that look alike are told apart, and so is code that stands in none. */
export function visible(text: string): string {
  return text.replace(harmful, (character) => {
    if (character === '\n') return '\\n';
    if (character === '\t') return '\\t';
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

/** For text of several lines that are lines of ours. A tab moves a terminal's cursor to the right and nowhere else. */
export function visibleLines(text: string): string {
  return text
    .split(/([\n\t])/)
    .map((part) => (part === '\n' || part === '\t' ? part : visible(part)))
    .join('');
}

/** For the output of a program on a terminal that is ours as well: colours and the return to a line's beginning stay. */
export function visibleOutput(text: string): string {
  return text.replace(harmfulOutput, (found) =>
    found.length > 2 || ['\n', '\t', '\r'].includes(found) ? found : visible(found),
  );
}

/** `12.3 MB`, in powers of 1,000 as disks are sold. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** A limit as it was set: in MiB. */
export function formatLimit(bytes: number): string {
  return bytes % 1_048_576 === 0 ? `${bytes / 1_048_576} MiB` : formatBytes(bytes);
}

/** Whole seconds since an RFC 3339 time, as `3m`, `2h`, `5d`. */
export function formatAge(time: string, now: number = Date.now()): string {
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return '?';
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
