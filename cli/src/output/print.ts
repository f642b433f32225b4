/**
 * What commands print. Standard output carries what was asked for and nothing else; all other words go to
 * standard error.
 *
 * Text that came from elsewhere (a command line, an owner's name) may hold escape sequences that would move the
 * reader's cursor or worse: `visible` makes them harmless in everything laid out for people.
 */
import { writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { errorCode, exitCodes } from '../failure.ts';

export const standardOutput = 1;
export const standardError = 2;
export type Descriptor = typeof standardOutput | typeof standardError;

/**
 * Writes to the descriptor itself: making Node's stream for it costs 2 ms of a call, and would block as well.
 * `squash ls | head -1` ends quietly, as programs that die of SIGPIPE do.
 */
export function printText(descriptor: Descriptor, text: string): void {
  let rest = Buffer.from(text);
  try {
    while (rest.length > 0) rest = rest.subarray(writeSync(descriptor, rest));
  } catch (cause) {
    if (isReaderGone(cause)) process.exit(exitCodes.brokenPipe);
    if (errorCode(cause) !== 'EAGAIN') throw cause;
    // Somebody made the descriptor non-blocking, and its reader is slow. Node's stream waits for it.
    const stream = descriptor === standardOutput ? process.stdout : process.stderr;
    stream.once('error', () => process.exit(exitCodes.brokenPipe)).write(rest);
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

/** JSON leaves some characters as they are that terminals obey; escaped they mean the same to every parser. */
export function printJson(value: unknown): void {
  const text = JSON.stringify(value, undefined, 2).replace(
    /[\u007f-\u009f\p{Cf}\u2028\u2029]/gu,
    (characters) =>
      Array.from({ length: characters.length }, (_, index) => characters.charCodeAt(index))
        .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
        .join(''),
  );
  printLine(text);
}

/** The terminal's own colours, which every reader has set to what they can read. */
const styles = { green: 32, red: 31, yellow: 33 } as const;
export type Style = keyof typeof styles;

/** Coloured where standard output is a terminal and `NO_COLOR` is not set. */
export function styled(style: Style, text: string): string {
  if (process.env['NO_COLOR'] || !isatty(standardOutput)) return text;
  return `\u001b[${styles[style]}m${text}\u001b[39m`;
}

export function visible(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) => {
    if (character === '\n') return '\\n';
    if (character === '\t') return '\\t';
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

export interface Column<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  readonly align?: 'right';
  readonly style?: (row: Row) => Style | undefined;
}

/** Columns as wide as their widest cell; the last one is not padded. */
export function printTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): void {
  const cells = rows.map((row) => columns.map((column) => visible(column.text(row))));
  const widths = columns.map((column, index) =>
    cells.reduce((widest, line) => Math.max(widest, line[index]?.length ?? 0), column.title.length),
  );
  const lay = (line: readonly string[], paint: (text: string, index: number) => string): string =>
    line
      .map((cell, index) => {
        const width = widths[index] ?? 0;
        const last = index === columns.length - 1;
        const gap = ' '.repeat(Math.max(0, width - cell.length));
        if (columns[index]?.align === 'right') return gap + paint(cell, index);
        return paint(cell, index) + (last ? '' : gap);
      })
      .join('  ');
  printLine(
    lay(
      columns.map((column) => column.title),
      (text) => text,
    ),
  );
  for (const [number, line] of cells.entries()) {
    const row = rows[number];
    printLine(
      lay(line, (text, index) => {
        const style = row === undefined ? undefined : columns[index]?.style?.(row);
        return style === undefined ? text : styled(style, text);
      }),
    );
  }
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

/** Whole seconds since an RFC 3339 time, as `3m`, `2h`, `5d`. */
export function formatAge(time: string, now: number = Date.now()): string {
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return '?';
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
