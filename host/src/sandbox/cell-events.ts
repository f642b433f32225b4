/** From what the bridge writes to what a follower of one cell is told. */
import type { CellEvent, ContextLanguage } from '@squash/contract/context';
import type { PlacedLine } from './context-lines.ts';

interface CellSource {
  readonly lines: AsyncGenerator<PlacedLine, void, void>;
  /** Of the cell. */
  readonly begin: Extract<PlacedLine, { type: 'line' }>;
  readonly context: string;
  readonly language: ContextLanguage;
  /** Nothing up to this position is told again. */
  readonly after: number;
  readonly isFollowing: boolean;
}

/** Ends with `end`; without it where `signal` ended it, or nobody follows. */
export async function* cellEvents(
  { lines, begin, context, language, after, isFollowing }: CellSource,
  signal: AbortSignal,
): AsyncGenerator<CellEvent, void, void> {
  const cell = begin.start;
  if (begin.end > after) yield { type: 'cell', seq: begin.end, cell, context, language };
  // A bridge runs one cell at a time: all up to its end is this one's.
  for await (const placed of lines) {
    if (placed.type === 'gap') {
      if (placed.seq > after) yield placed;
      continue;
    }
    const { line, end: seq } = placed;
    // Behind a gap the next cell may have begun: the end is lost.
    if (line.type === 'cell') break;
    if (line.type === 'state' || line.type === 'refused') continue;
    if (seq > after) yield { ...line, seq, cell };
    if (line.type === 'end') return;
  }
  if (signal.aborted || !isFollowing) return;
  yield {
    type: 'error',
    code: 'context_ended',
    message: `Context "${context}" has ended before cell ${cell} has, or the end of the cell is not kept any more`,
    remedy: 'Create the context again',
  };
}
