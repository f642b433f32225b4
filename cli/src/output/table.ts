/** Tables and colours for people. Apart from `print.ts`, because telling a terminal loads Node's sockets. */
import { isatty } from 'node:tty';
import { printLine, standardOutput, visible } from './print.ts';

/** The terminal's own colours, which every reader has set to what they can read. */
const styles = { green: 32, red: 31, yellow: 33 } as const;
export type Style = keyof typeof styles;

/** Coloured where standard output is a terminal and `NO_COLOR` is not set. */
export function styled(style: Style, text: string): string {
  if (process.env['NO_COLOR'] || !isatty(standardOutput)) return text;
  return `\u001b[${styles[style]}m${text}\u001b[39m`;
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
