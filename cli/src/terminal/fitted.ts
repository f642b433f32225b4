/** Lines that a terminal shows whole or not at all: who wrote a part of them must not push another part out of sight. */
import type { TerminalSize } from './terminal-size.ts';

/** @param spare rows that are needed beside them */
export function fitted(
  text: string,
  { rows, columns }: TerminalSize,
  spare: number,
): { readonly text: string; readonly isWhole: boolean } {
  const lines = text.split('\n');
  const room = rows - spare;
  if (rowsOf(text, columns) <= room) return { text, isWhole: true };
  const most = Math.max(1, Math.floor(room / lines.length) * columns - 1);
  return { text: lines.map((line) => cut(line, most)).join('\n'), isWhole: false };
}

/** At most. */
export function rowsOf(text: string, columns: number): number {
  return text.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(cells(line) / columns)), 0);
}

/** With dots in place of what is too much. */
export function cut(line: string, most: number): string {
  if (cells(line) <= most) return line;
  let text = '';
  let left = most - 1;
  for (const letter of line) {
    left -= cells(letter);
    if (left < 0) break;
    text += letter;
  }
  return `${text}…`;
}

/** Two at most for each letter. */
function cells(line: string): number {
  return Array.from(line).reduce((sum, letter) => sum + (letter <= '~' ? 1 : 2), 0);
}
