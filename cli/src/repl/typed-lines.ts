/**
 * Lines as a person types them, with what editors of lines have: keys, history, completion.
 *
 * What a newcomer would get wrong: it stays open while a cell runs, because lines of a text that was pasted come all at once. The terminal
 * is its usual self meanwhile, so that Ctrl-C is a signal.
 */
import { createInterface, type Interface } from 'node:readline';
import { printText, standardOutput } from '../output/print.ts';
import { historyLinesMax } from './history.ts';

export type Typed =
  | { readonly type: 'line'; readonly text: string; readonly isPasted: boolean }
  /** By Ctrl-C. */
  | { readonly type: 'dropped'; readonly isEmpty: boolean }
  | { readonly type: 'end' };

export interface LineOptions {
  /** The newest first. */
  readonly history: readonly string[];
  /** What may stand in place of the line. */
  readonly complete: (line: string) => readonly string[];
  /** Ends them. */
  readonly signal: AbortSignal;
}

/** Terminals then say where a text begins and ends that is pasted. */
const tellPastes = (isTold: boolean): string => `\u001b[?2004${isTold ? 'h' : 'l'}`;

export class TypedLines implements Disposable {
  readonly #reader: Interface;
  readonly #typed: Typed[] = [];
  #wake: (() => void) | undefined;
  #isPasting = false;
  #isReading = true;
  #isEnded = false;

  constructor({ history, complete, signal }: LineOptions) {
    this.#reader = createInterface({
      input: process.stdin,
      output: process.stdout,
      terminal: true,
      history: [...history],
      historySize: historyLinesMax,
      removeHistoryDuplicates: true,
      signal,
      completer: (line: string) => [[...complete(line)], line],
    });
    this.#reader
      .on('line', (text) => this.#give({ type: 'line', text, isPasted: this.#isPasting }))
      .on('SIGINT', () => this.#drop())
      .on('close', () => {
        this.#isEnded = true;
        this.#give({ type: 'end' });
      });
    process.stdin.on('keypress', (_text: string | undefined, { name }: { readonly name?: string }) => {
      if (name === 'paste-start') this.#isPasting = true;
      if (name === 'paste-end') this.#isPasting = false;
    });
    this.rest();
  }

  async next(prompt: string): Promise<Typed> {
    if (this.#typed.length === 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      if (this.#isEnded) return { type: 'end' };
      this.#isReading = true;
      process.stdin.setRawMode(true);
      printText(standardOutput, tellPastes(true));
      this.#reader.setPrompt(prompt);
      this.#reader.prompt();
      await promise;
    }
    return this.#typed.shift() ?? { type: 'end' };
  }

  /** Until `next`: nothing is read, and the terminal is as it was. */
  rest(): void {
    if (this.#isEnded || !this.#isReading) return;
    this.#isReading = false;
    this.#reader.pause();
    process.stdin.setRawMode(false);
    printText(standardOutput, tellPastes(false));
  }

  [Symbol.dispose](): void {
    this.rest();
    this.#reader.close();
  }

  #drop(): void {
    this.#isPasting = false;
    const isEmpty = this.#reader.line === '';
    // To the end, and from there away.
    this.#reader.write(null, { ctrl: true, name: 'e' });
    this.#reader.write(null, { ctrl: true, name: 'u' });
    printText(standardOutput, '\n');
    this.#give({ type: 'dropped', isEmpty });
  }

  #give(typed: Typed): void {
    this.#typed.push(typed);
    this.#wake?.();
  }
}
