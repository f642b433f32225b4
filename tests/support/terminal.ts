/** A program on a real terminal in tests: type, look, resize. `terminal.py` holds the pty, because Node can't. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { waitFor } from './wait.ts';

export interface TerminalEnd {
  /** As wait(2) gives it: exit code times 256, or the signal. */
  readonly status: number;
  /** The terminal's settings are what they were before. */
  readonly restored: boolean;
}

export interface TerminalOptions {
  readonly rows: number;
  readonly columns: number;
  readonly env: Readonly<Record<string, string>>;
}

export class Terminal implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  #screen = '';
  #verdict = '';
  #isEnded = false;

  constructor(command: readonly string[], { rows, columns, env }: TerminalOptions) {
    const script = join(import.meta.dirname, 'terminal.py');
    this.#child = spawn('python3', [script, `${rows}`, `${columns}`, ...command], {
      env: { ...env },
      stdio: ['pipe', 'pipe', 'inherit', 'pipe'],
    });
    this.#child.stdout?.on('data', (part: Buffer) => {
      this.#screen += part.toString('latin1');
    });
    this.#child.stdio[3]?.on('data', (part: Buffer) => {
      this.#verdict += part.toString();
    });
    this.#child.stdin?.on('error', () => {});
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#child.once('close', () => {
      this.#isEnded = true;
      resolve();
    });
    this.#ended = promise;
  }

  /** Everything that was written since the last `type`. */
  get screen(): string {
    return this.#screen;
  }

  type(text: string): void {
    this.#screen = '';
    this.#order({ type: text });
  }

  resize(rows: number, columns: number): void {
    this.#order({ resize: [rows, columns] });
  }

  hangUp(): void {
    this.#order({ hangup: true });
  }

  /** Waits until the program has written this. */
  async see(pattern: RegExp): Promise<RegExpExecArray> {
    return await this.#wait(`${pattern}`, () => pattern.exec(this.#screen) ?? undefined);
  }

  /** Waits until the program has ended by itself. */
  async end(): Promise<TerminalEnd> {
    await this.#wait('the end', () => this.#isEnded);
    return JSON.parse(this.#verdict) as TerminalEnd;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }

  async #wait<T>(what: string, look: () => T | undefined | false): Promise<T> {
    try {
      return await waitFor(what, look, 30_000);
    } catch (error) {
      throw new Error(`${(error as Error).message}; there is: ${JSON.stringify(this.#screen)}`, {
        cause: error,
      });
    }
  }

  #order(order: object): void {
    this.#child.stdin?.write(`${JSON.stringify(order)}\n`);
  }
}
