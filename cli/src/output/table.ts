/** Tables and colours for people. Apart from `print.ts`, because telling a terminal loads Node's sockets. */
import { isatty } from 'node:tty';
import { printLine, standardOutput, visible } from './print.ts';

/** Less of a cut text tells nothing. */
const cutCharsMin = 10;

/** The terminal's own colours, which every reader has set to what they can read. */
const styles = { green: 32, red: 31, yellow: 33 } as const;
export type Style = keyof typeof styles;

/** Coloured where standard output is a terminal, or `FORCE_COLOR` says so; never with `NO_COLOR`. */
export function styled(style: Style, text: string): string {
  const { NO_COLOR: none, FORCE_COLOR: forced = '' } = process.env;
  const isColoured = ['', '0', 'false'].includes(forced) ? isatty(standardOutput) : true;
  if (none || !isColoured) return text;
  return `\u001b[${styles[style]}m${text}\u001b[39m`;
}

export interface Column<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  readonly align?: 'right';
  readonly style?: (row: Row) => Style | undefined;
  /** Only as a last column: what does not fit on the terminal's line is cut. Pipes and files get all. */
  readonly fits?: true;
}

/** Columns as wide as their widest cell; the last one is not padded. */
export function printTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[], lineEnd = ''): void {
  const cells = fitted(
    columns,
    rows.map((row) => columns.map((column) => visible(column.text(row)))),
  );
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
  const head = columns.map((column) => column.title);
  printLine(lay(head, (text) => text) + lineEnd);
  for (const [number, line] of cells.entries()) {
    const row = rows[number];
    printLine(
      lay(line, (text, index) => {
        const style = row === undefined ? undefined : columns[index]?.style?.(row);
        return style === undefined ? text : styled(style, text);
      }) + lineEnd,
    );
  }
}

function fitted<Row>(
  columns: readonly Column<Row>[],
  cells: readonly (readonly string[])[],
): readonly (readonly string[])[] {
  const width = columns.at(-1)?.fits === true && isatty(standardOutput) ? process.stdout.columns : 0;
  // A terminal that was never told its size says 0.
  if (width === 0) return cells;
  const before = columns
    .slice(0, -1)
    .map(({ title }, index) => Math.max(title.length, ...cells.map((line) => line[index]?.length ?? 0)) + 2);
  const room = Math.max(
    cutCharsMin,
    before.reduce((rest, each) => rest - each, width),
  );
  return cells.map((line) => line.with(-1, cut(line.at(-1) ?? '', room)));
}

/** Drawn two cells wide. */
const wide =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uff01-\uff60]/u;

/** By what a reader sees as characters. */
function cut(text: string, room: number): string {
  let kept = '';
  let cells = 0;
  for (const { segment, index } of new Intl.Segmenter().segment(text)) {
    cells += wide.test(segment) ? 2 : 1;
    if (cells > room) return `${kept}…`;
    // One cell is kept for the mark.
    if (cells < room) kept = text.slice(0, index + segment.length);
  }
  return text;
}
