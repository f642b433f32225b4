/** What a context is doing, as its bridge has said last. Read from the output that is kept, then followed as long as the process runs. */
import type { Context } from '@squash/contract/context';
import { limits } from '@squash/contract/limits';
import { bridgeLines, type PlacedLine } from './context-lines.ts';
import type { OutputEvent } from './process-output.ts';

type Present = Pick<Context, 'state' | 'cell' | 'error'>;

export class ContextState {
  #present: Present = { state: 'starting', cell: null, error: null };
  /** Behind the last line that counts here. */
  #seen = 0;
  /** What is kept now has been read. */
  readonly ready: Promise<void>;
  /** The process has ended, or nobody follows it any more. Never rejects. */
  readonly over: Promise<void>;

  constructor(output: (after: number, isFollowing: boolean) => AsyncIterable<OutputEvent>) {
    this.ready = this.#read(output(0, false));
    // Longer lines change no state, so none is missed where the second reading begins within one.
    this.over = this.ready.then(() => this.#read(output(this.#seen, true)));
  }

  get present(): Present {
    return this.#present;
  }

  /** Who follows a cell may know more than is read here yet: what he is told, he finds here. */
  async *seeing(lines: AsyncIterable<PlacedLine>): AsyncGenerator<PlacedLine, void, void> {
    for await (const placed of lines) {
      this.#take(placed);
      yield placed;
    }
  }

  async #read(output: AsyncIterable<OutputEvent>): Promise<void> {
    try {
      for await (const placed of bridgeLines(output, limits.contextStateLineBytesMax)) this.#take(placed);
    } catch {
      // The sandbox is gone or stands still unread; whoever asks for the context is told so where it is looked for.
    }
  }

  #take(placed: PlacedLine): void {
    if (placed.type === 'gap' || placed.end <= this.#seen) return;
    const { line, start, end } = placed;
    this.#seen = end;
    if (line.type === 'cell') this.#present = { state: 'busy', cell: start, error: null };
    else if (line.type === 'end') {
      // Why it is dead comes with the next line.
      const state = line.status === 'kernel_died' ? 'dead' : 'idle';
      this.#present = { state, cell: null, error: null };
    }
    if (line.type === 'state') {
      this.#present = { state: line.state, cell: null, error: line.error?.slice(0, 1_024) ?? null };
    }
  }
}
