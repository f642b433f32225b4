/**
 * `prepare()` within bounds. The parsers read a stranger's text: some take time with the square of its length, the one for TypeScript with a power
 * (twenty nested `<T>(` are minutes), and its WebAssembly stays broken once it has run out of stack. So short JavaScript is read here, where the
 * worst takes some milliseconds, and everything else in a thread that can be ended.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { CodemodeError } from '../errors.ts';
import { type Prepared, type PrepareOptions, prepare } from './prepare.ts';
import type { ThreadAnswer } from './prepare-thread.ts';

/** The worst known program of this length takes 30 ms; most that models write are shorter. */
const directCharsMax = 2048;
/**
 * A property of characters in an expression, or many words where case is ignored: the parser of JavaScript has the engine read each expression, and
 * seventy of the one take a third of a second, a thousand of the other a tenth. What looks like one without being one is read in a thread for nothing.
 */
const isSlowToRead = (code: string) =>
  /\\p\{/i.test(code) ||
  (/\\w/i.test(code) && /\/[a-z]*[uv]/.test(code) && /\/[a-z]*i|\(\?[a-z-]*i/.test(code));
/** A quarter of a megabyte of ordinary code takes 0.2 s of an idle processor. */
const prepareMsMax = 5000;
/** A program that takes all its time must not hold up every other. */
const threadsMax = 2;
/** The tree of the longest program is a hundred times its text. */
const resourceLimits = { maxOldGenerationSizeMb: 512 };

export class Preparer {
  readonly #idle: Worker[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #msMax: number;
  #busy = 0;
  #closed = false;

  constructor(msMax: number = prepareMsMax) {
    this.#msMax = msMax;
  }

  /** @throws CodemodeError of kind `code-limit`, `syntax` or `timeout` */
  async prepare(code: string, options: PrepareOptions): Promise<Prepared> {
    return this.#directly(code, options) ?? (await this.#inThread(code, options));
  }

  async dispose(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#idle.splice(0).map((thread) => thread.terminate()));
  }

  /** Undefined where only the thread can tell. */
  #directly(code: string, options: PrepareOptions): Prepared | undefined {
    if (code.length <= directCharsMax && options.language !== 'typescript' && !isSlowToRead(code)) {
      try {
        return prepare(code, { ...options, language: 'javascript' });
      } catch (failure) {
        if (options.language === 'javascript') throw failure;
        return undefined;
      }
    }
    // Too long is too long: no thread has to find that out.
    return code.length > options.codeBytes ? prepare(code, options) : undefined;
  }

  async #inThread(code: string, options: PrepareOptions): Promise<Prepared> {
    while (this.#busy >= threadsMax) await new Promise<void>((go) => this.#waiting.push(go));
    this.#busy += 1;
    const thread = this.#idle.pop() ?? startThread();
    thread.ref();
    let isFit = false;
    try {
      const answer = await this.#ask(thread, { code, options });
      isFit = answer.ok || !answer.isSpent;
      if (answer.ok) return answer.prepared;
      throw new CodemodeError(answer.kind, answer.message);
    } finally {
      this.#busy -= 1;
      thread.unref();
      if (isFit && this.#idle.length === 0 && !this.#closed) this.#idle.push(thread);
      else await thread.terminate();
      this.#waiting.shift()?.();
    }
  }

  #ask(
    thread: Worker,
    question: { readonly code: string; readonly options: PrepareOptions },
  ): Promise<ThreadAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<ThreadAnswer>();
    const onError = (cause: Error) =>
      reject(new CodemodeError('code-limit', 'the code takes more memory to be read than it may', { cause }));
    const late = setTimeout(
      () => reject(new CodemodeError('timeout', `the code takes longer than ${this.#msMax}ms to be read`)),
      this.#msMax,
    );
    thread.on('message', resolve).on('error', onError);
    thread.postMessage(question);
    return promise.finally(() => {
      clearTimeout(late);
      thread.off('message', resolve).off('error', onError);
    });
  }
}

/** Without the environment of this program and its flags, which are not the parsers' business. */
function startThread(): Worker {
  const program = new URL(`./prepare-thread${extname(import.meta.filename)}`, import.meta.url);
  const thread = new Worker(program, { resourceLimits, env: {}, execArgv: ['--no-warnings'] });
  // One that ends while nobody asks is found out by the next who does.
  thread.on('error', () => {});
  return thread;
}
