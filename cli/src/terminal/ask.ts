/**
 * Asks for a line on the terminal itself, while other things go on. Standard input may be a program or a list.
 *
 * What a newcomer would get wrong: who asks may be hostile. A question that comes while somebody types the answer to another one must not
 * take that answer, so what is there in its first moment is dropped.
 */
import { openSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { usageFailure } from '../failure.ts';
import { printText, standardError } from '../output/print.ts';

/** As long as it takes to see that there is another question. */
const settleMs = 300;

export class AskingTerminal implements Disposable {
  readonly #stream: ReadStream;

  /** @throws where there is none */
  constructor() {
    try {
      this.#stream = new ReadStream(openSync('/dev/tty', 'r+'));
    } catch {
      throw usageFailure('there is no terminal to ask on');
    }
    // Its hang-up is the end of what is read.
    this.#stream.on('error', () => {});
    this.#stream.setEncoding('utf8').pause();
  }

  /** The line without its end; undefined where the signal aborts or the terminal is gone. */
  async ask(question: string, signal: AbortSignal): Promise<string | undefined> {
    if (signal.aborted) return undefined;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    const endMs = performance.now() + settleMs;
    let text = '';
    const hear = (piece: string): void => {
      if (performance.now() < endMs) return;
      text += piece;
      const [line = '', ...more] = text.split('\n');
      if (more.length > 0) resolve(line.trim());
    };
    const leave = (): void => resolve(undefined);
    this.#stream.on('data', hear).once('end', leave).once('close', leave);
    signal.addEventListener('abort', leave, { once: true });
    printText(standardError, question);
    this.#stream.resume();
    try {
      const answer = await promise;
      if (answer === undefined) printText(standardError, '\n');
      return answer;
    } finally {
      this.#stream.pause();
      this.#stream.off('data', hear).off('end', leave).off('close', leave);
      signal.removeEventListener('abort', leave);
    }
  }

  [Symbol.dispose](): void {
    this.#stream.destroy();
  }
}
