/**
 * Questions of a command's sandbox on the terminal on which the command runs.
 *
 * What a newcomer would get wrong: the program may be hostile, writes whatever it wants on this terminal, and can ask at any moment; the
 * user types for the program. So a question is announced, and put when he presses Ctrl-]: then alone, on a screen of ours, while the
 * program's output waits. Until then every key is the program's, and so is Ctrl-] where nothing waits. What looks like a question
 * otherwise is the program's, and so is what is typed at it. `AnswerKeys` says what is an answer.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Question } from '../approving.ts';
import { CliFailure } from '../failure.ts';
import { printNote, visible } from '../output/print.ts';
import { AnswerKeys, interrupt, leaving } from './answer-keys.ts';
import { cut, fitted, rowsOf } from './fitted.ts';
import { OwnScreen } from './own-screen.ts';
import { terminalSize } from './terminal-size.ts';

/** What a sandbox asks. */
export interface QuestionSource {
  /** All that wait, the oldest first. */
  readonly questions: () => Promise<readonly Question[]>;
  /** Calls when there may be others than before, until it is told that it is over, or the daemon is gone. */
  readonly follow: (changed: () => void, over: AbortSignal) => Promise<void>;
  /** What answers in another terminal. */
  readonly elsewhere: string;
}

/** Ctrl-], also as terminals send it where a program has asked for other keys, with the locks of a keyboard or without. */
const showKey = new RegExp(String.raw`\u001d|\u001b\[93;(?:5|69|133|197)(?::1)?u|\u001b\[27;5;93~`);

const tickMs = 50;
const lookMs = 1_000;
/** What became of a question is read, and what was typed for it is dropped. */
const becameMs = 1_000;
/** In the middle of a sequence of the program's an announcement waits, but not for ever. */
const [pauseMs, pausesMax] = [50, 20];
const announcedCells = 150;
/** Rows between a question and what is beside it, and for how many more there are. */
const spareRows = 5;

const title = 'squash asks you; the program’s output waits meanwhile';

/** Where nothing can be asked: the user is told where he answers. Until it is over. */
export function tellQuestions(source: QuestionSource, over: AbortSignal): void {
  const waiting = new Waiting(source, over, (news) => {
    if (!over.aborted && news.length > 0)
      printNote(`squash: ${announced(news)}; answer in another terminal: ${source.elsewhere}`);
  });
  waiting.begin();
}

export interface RunTerminal {
  readonly source: QuestionSource;
  /** The program draws its screen anew. */
  readonly redraw: () => void;
}

/** Standard input and standard output are the terminal, which is in raw mode. */
export class RunQuestions {
  readonly #terminal: RunTerminal;
  readonly #waiting: Waiting;
  readonly #screen = new OwnScreen();
  readonly #over = new AbortController();
  readonly #giveBack = (): void => this.#leaveScreen();
  readonly #resized = (): void => this.#draw?.();
  #writing: Promise<void> | undefined;
  /** While questions are put. */
  #showing: Promise<void> | undefined;
  /** Of these. Who leaves waits for nobody, neither for the daemon. */
  #left = new AbortController();
  #hasScreen = false;
  #keys: AnswerKeys | undefined;
  #draw: (() => void) | undefined;

  constructor(terminal: RunTerminal) {
    this.#terminal = terminal;
    this.#waiting = new Waiting(terminal.source, this.#over.signal, (news) => void this.#announce(news));
  }

  begin(): void {
    process.stdout.on('resize', this.#resized);
    process.on('SIGCONT', this.#resized);
    this.#waiting.begin();
  }

  /** Idempotent. */
  end(): void {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    this.leave();
    process.stdout.off('resize', this.#resized);
    process.off('SIGCONT', this.#resized);
    this.#screen.call(undefined);
  }

  /** The questions wait on, and the screen is the program's. Idempotent. */
  leave(): void {
    this.#left.abort();
    this.#leaveScreen();
  }

  /** When none is put. */
  async free(): Promise<void> {
    while (this.#showing !== undefined) await this.#showing;
  }

  /** Output of the program, when it may be written. */
  async print(data: Uint8Array, write: (data: Uint8Array) => Promise<void>): Promise<void> {
    await this.free();
    this.#screen.heed(data);
    this.#writing = write(data);
    await this.#writing;
  }

  /** What was typed. @returns what of it is the program's */
  heard(typed: Buffer): Buffer {
    if (this.#showing !== undefined) {
      if (typed.toString('latin1') === interrupt) this.leave();
      else this.#keys?.hear(typed);
      return Buffer.alloc(0);
    }
    if (this.#waiting.questions.length === 0) return typed;
    const found = showKey.exec(typed.toString('latin1'));
    if (found === null) return typed;
    const left = new AbortController();
    this.#left = left;
    const { promise, resolve } = Promise.withResolvers<void>();
    left.signal.addEventListener('abort', () => resolve());
    this.#showing = Promise.race([this.#putAll(left.signal), promise]).finally(() => {
      this.#showing = undefined;
    });
    return typed.subarray(0, found.index);
  }

  async #putAll(left: AbortSignal): Promise<void> {
    await this.#written();
    if (left.aborted) return;
    this.#hasScreen = true;
    process.once('exit', this.#giveBack);
    this.#screen.take();
    try {
      for (;;) {
        const [question] = this.#waiting.questions;
        if (question === undefined || (await this.#put(question, left)) === leaving) return;
        await this.#waiting.look();
        if (left.aborted) return;
      }
    } finally {
      if (!left.aborted) this.#leaveScreen();
    }
  }

  #leaveScreen(): void {
    if (!this.#hasScreen) return;
    this.#hasScreen = false;
    this.#draw = undefined;
    this.#keys = undefined;
    process.off('exit', this.#giveBack);
    if (this.#screen.giveBack()) this.#terminal.redraw();
    if (this.#waiting.questions.length === 0) this.#screen.call(undefined);
  }

  async #put(question: Question, left: AbortSignal): Promise<string> {
    const keys = new AnswerKeys(performance.now());
    this.#keys = keys;
    this.#show(question, '');
    let isHeard = false;
    let lookedMs = performance.now();
    for (;;) {
      await sleep(tickMs);
      const nowMs = performance.now();
      if (left.aborted) return leaving;
      if (!this.#waiting.has(question)) {
        const became = await becameOf(question);
        if (!left.aborted) await this.#told(question, `it is over: ${became}`);
        return '';
      }
      const key = keys.pressed(nowMs);
      if (!isHeard && keys.hears) {
        isHeard = true;
        this.#show(question, question.keys);
      }
      if (key === leaving) return leaving;
      const became = key === undefined ? undefined : await this.#answered(question, key);
      if (left.aborted) return leaving;
      if (became !== undefined) {
        await this.#told(question, became);
        return '';
      }
      if (nowMs - lookedMs > lookMs) {
        lookedMs = nowMs;
        void this.#waiting.look();
      }
    }
  }

  /** What became of it; undefined where the key means nothing. A question that is not seen whole is answered by no more than a refusal. */
  async #answered(question: Question, key: string): Promise<string | undefined> {
    const answer = Object.hasOwn(question.answers, key) ? question.answers[key] : undefined;
    if (answer === undefined || (key !== 'n' && !this.#fitted(question).isWhole)) return undefined;
    const became: string[] = [];
    try {
      await answer((each) => became.push(each));
    } catch (failure) {
      // Too late, or the daemon is gone: it is told as any other end.
      if (failure instanceof CliFailure) became.push(`${failure.message} (${failure.code})`);
      else became.push(failure instanceof Error ? failure.message : String(failure));
    }
    return became.map(visible).join('\n');
  }

  async #told(question: Question, became: string): Promise<void> {
    this.#keys = undefined;
    this.#show(question, became);
    await sleep(becameMs);
  }

  #show(question: Question, below: string): void {
    if (!this.#hasScreen) return;
    this.#draw = () => {
      const { text, isWhole } = this.#fitted(question);
      const more = this.#waiting.questions.length - 1;
      const behind = more > 0 ? `\n(${more} more behind it)` : '';
      const keys = below !== question.keys || isWhole ? below : '[n] deny  [Enter] later: ';
      const note = isWhole ? '' : `\n${this.#tooLong}`;
      this.#screen.show(`${title}${behind}\n\n${text}${note}\n\n${keys}`);
    };
    this.#draw();
  }

  get #tooLong(): string {
    return `It does not fit on this terminal: make it larger, or answer in another one: ${this.#terminal.source.elsewhere}`;
  }

  #fitted({ text, keys }: Question): ReturnType<typeof fitted> {
    const size = terminalSize();
    const beside = rowsOf(`${title}\n${keys}\n${this.#tooLong}`, size.columns);
    return fitted(text, size, beside + spareRows);
  }

  async #announce(news: readonly Question[]): Promise<void> {
    if (this.#showing === undefined) {
      for (let pauses = 0; this.#screen.isWithinSequence && pauses < pausesMax; pauses++)
        await sleep(pauseMs);
      await this.#written();
    }
    if (this.#showing !== undefined || this.#over.signal.aborted) return;
    if (news.length > 0) this.#screen.announce(`squash: ${announced(news)}; Ctrl-] shows the question`);
    this.#screen.call(
      this.#waiting.questions.length > 0 ? 'squash: a question waits; Ctrl-] shows it' : undefined,
    );
  }

  async #written(): Promise<void> {
    await this.#writing?.catch(() => {
      // Whoever prints tells.
    });
  }
}

/** What waits at present, as far as is known here. */
class Waiting {
  readonly #source: QuestionSource;
  readonly #over: AbortSignal;
  readonly #changed: (news: readonly Question[]) => void;
  #known: readonly Question[] = [];
  #looking: Promise<void> | undefined;
  #isStale = false;

  /** @param changed is told which were not there before */
  constructor(source: QuestionSource, over: AbortSignal, changed: (news: readonly Question[]) => void) {
    this.#source = source;
    this.#over = over;
    this.#changed = changed;
  }

  get questions(): readonly Question[] {
    return this.#known;
  }

  has({ id }: Question): boolean {
    return this.#known.some((each) => each.id === id);
  }

  begin(): void {
    this.#source
      .follow(() => void this.look(), this.#over)
      .catch(() => {
        // Of a daemon that is gone whoever reads the command's messages hears.
      });
  }

  /** Many that ask at once are answered by two looks. */
  async look(): Promise<void> {
    this.#isStale = true;
    this.#looking ??= this.#lookOften().finally(() => {
      this.#looking = undefined;
    });
    await this.#looking;
  }

  async #lookOften(): Promise<void> {
    while (this.#isStale && !this.#over.aborted) {
      this.#isStale = false;
      try {
        const found = await this.#source.questions();
        const news = found.filter((each) => !this.has(each));
        this.#known = found;
        this.#changed(news);
      } catch {
        // The daemon may be restarting: what was known stays so.
      }
    }
  }
}

/** In one line. */
function announced([first, ...more]: readonly Question[]): string {
  const [line = ''] = first?.text.split('\n') ?? [];
  return cut(line, announcedCells) + (more.length === 0 ? '' : ` (and ${more.length} more)`);
}

async function becameOf(question: Question): Promise<string> {
  try {
    return (await question.over()) ?? 'answered';
  } catch {
    // The daemon, or the box, is gone.
    return 'nobody asks any more';
  }
}
