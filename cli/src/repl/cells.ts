/** Runs cells of one context, one at a time, and interrupts the one that runs. */
import { type CellEvent, type Context, SquashError, Unreachable } from '@squash/sdk';
import { CliFailure, exitCodes } from '../failure.ts';
import { printNote } from '../output/print.ts';

export type CellStatus = Extract<CellEvent, { type: 'end' }>['status'];

interface CellOptions {
  readonly timeoutMs: number;
  readonly take: (event: CellEvent) => Promise<void>;
  /** Whoever gives it has gone: the cell is left alone. */
  readonly signal: AbortSignal;
}

export class Cells {
  readonly context: Context;
  readonly #options: CellOptions;
  #interrupt: () => void = () => {};

  constructor(context: Context, options: CellOptions) {
    this.context = context;
    this.#options = options;
  }

  /**
   * Resolves with the cell's end; `interrupted` also where somebody did not wait for its turn.
   * @throws CliFailure
   */
  async run(code: string): Promise<CellStatus> {
    const { timeoutMs, take, signal } = this.#options;
    const leave = new AbortController();
    const options = { timeout_ms: timeoutMs, signal: AbortSignal.any([signal, leave.signal]) };
    let hasBegun = false;
    let isUnwanted = false;
    const tell = (): void => {
      // It has ended, or no daemon is there: whoever follows the cell hears of it.
      this.context.interrupt({ signal }).catch(() => {});
    };
    this.#interrupt = () => {
      if (hasBegun) return tell();
      // What waits for its turn can't be called back.
      if (isUnwanted) return leave.abort();
      isUnwanted = true;
      printNote('squash: the cell is interrupted when it begins; Ctrl-C again leaves it to itself');
    };
    try {
      for await (const event of this.context.stream(code, options)) {
        if (event.type === 'cell') {
          hasBegun = true;
          if (isUnwanted) tell();
        }
        await take(event);
        if (event.type === 'end') return event.status;
      }
      throw new CliFailure(
        'unreachable',
        'the daemon ended the stream before the cell ended',
        exitCodes.unreachable,
      );
    } catch (cause) {
      if (!leave.signal.aborted || signal.aborted) throw asFailure(cause);
      printNote('squash: did not wait; the cell runs all the same when its turn comes');
      return 'interrupted';
    } finally {
      this.#interrupt = () => {};
    }
  }

  /** Nothing where none runs. */
  interrupt(): void {
    this.#interrupt();
  }
}

/** What the SDK says, as the command line tells it. */
export function asFailure(cause: unknown): unknown {
  if (!(cause instanceof SquashError)) return cause;
  const exitCode = cause instanceof Unreachable ? exitCodes.unreachable : exitCodes.failed;
  return new CliFailure(cause.code, cause.message, exitCode);
}
