/** How large our terminal is, within what the contract takes. */
export interface TerminalSize {
  readonly rows: number;
  readonly columns: number;
}

/** What a program gets that asks a terminal without a size. */
const sizeDefault: TerminalSize = { rows: 24, columns: 80 };
/** The contract's bound. */
const sizeMax = 4096;

export function terminalSize(): TerminalSize {
  const { rows, columns } = process.stdout.isTTY ? process.stdout : process.stderr;
  return { rows: bounded(rows, sizeDefault.rows), columns: bounded(columns, sizeDefault.columns) };
}

function bounded(value: number | undefined, otherwise: number): number {
  return value === undefined || value < 1 ? otherwise : Math.min(value, sizeMax);
}
