/**
 * One command in a sandbox, with our standard streams, our signals and our terminal as its own.
 *
 * Every direction is awaited: output is written before the next message is read, input is sent before more is
 * read. So a reader that stalls stalls the command, and nothing here grows.
 */
import { isatty } from 'node:tty';
import type { ExecControl, ExecEvent, ExecStart } from '@squash/contract/exec';
import { apiPath, type Client } from '../client/client.ts';
import type { WebSocketConnection } from '../client/websocket.ts';
import { CliFailure, exitCodes, Failure } from '../failure.ts';
import { printNote, standardError, standardOutput } from '../output/print.ts';
import { forwardSignals, signalNumbers } from './forward-signals.ts';
import { openInputSource } from './input-source.ts';
import { openOutputSink, type OutputSink } from './output-sink.ts';
import type { QuestionSource, RunQuestions } from './run-questions.ts';
import { suspendJob } from './suspend.ts';
import { terminalSize } from './terminal-size.ts';

/** What is sent as `execStart`, with the fields that have defaults left out. */
export interface ExecWish {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
  readonly user: ExecStart['user'];
  readonly timeoutMs: number | undefined;
  readonly tty: boolean;
  readonly stdin: boolean;
  /** `discard`: the output is read and dropped; the caller asks for the stored record. */
  readonly output: 'print' | 'discard';
  /** What the sandbox asks while the command runs; undefined: nothing. */
  readonly questions?: QuestionSource | undefined;
}

export interface ExecEnd {
  readonly seq: number;
  readonly exitCode: number;
}

/** Between two sizes, so that a program sees both. */
const redrawMs = 100;

type ExitEvent = Extract<ExecEvent, { type: 'exit' }>;

export async function streamExec(client: Client, id: string, wish: ExecWish): Promise<ExecEnd> {
  const hasJobs = wish.tty && isatty(0);
  try {
    return await streamOnce(client, id, { ...wish, hasJobs });
  } catch (cause) {
    // A daemon of an earlier release knows none, and has started nothing.
    const isUnknown = cause instanceof CliFailure && cause.code === 'invalid_request';
    if (!hasJobs || !isUnknown || !cause.message.includes('"job_control"')) throw cause;
    return await streamOnce(client, id, { ...wish, hasJobs: false });
  }
}

/** With `hasJobs` we are told when the command is stopped, and continue it. */
interface FullWish extends ExecWish {
  readonly hasJobs: boolean;
}

async function streamOnce(client: Client, id: string, wish: FullWish): Promise<ExecEnd> {
  const path = apiPath(['v1', 'sandboxes', id, 'exec']);
  const connection = await client.webSocket(path, 'squash.exec.v1');
  const session = new ExecStream(connection, wish);
  try {
    return await session.run();
  } catch (cause) {
    throw session.explain(cause, id);
  } finally {
    session.end();
  }
}

class ExecStream {
  readonly #connection: WebSocketConnection;
  readonly #wish: FullWish;
  /** Opened when there is something to write: many commands write nothing. */
  #stdout: OutputSink | undefined;
  #stderr: OutputSink | undefined;
  readonly #cleanups: (() => void)[] = [];
  #seq = 0;
  #questions: RunQuestions | undefined;
  /** Until somebody continues us; the terminal is as it was meanwhile. */
  #suspend = async (): Promise<void> => {};

  constructor(connection: WebSocketConnection, wish: FullWish) {
    this.#connection = connection;
    this.#wish = wish;
  }

  async run(): Promise<ExecEnd> {
    this.#cleanups.push(
      forwardSignals((name) => {
        this.#questions?.leave();
        this.#signal(name);
      }),
    );
    await this.#connection.sendText(JSON.stringify(startMessage(this.#wish)));
    for await (const message of this.#connection.messages()) {
      // While somebody is asked, nothing more is taken, and so the command waits.
      await this.#questions?.free();
      if (message.type === 'binary') {
        await this.#print(message.data);
        continue;
      }
      const event = JSON.parse(message.text) as ExecEvent;
      if (event.type === 'started') await this.#started(event.seq);
      if (event.type === 'stopped') await this.#stopped();
      if (event.type === 'error') throw refusal(event);
      if (event.type === 'exit') {
        this.end();
        tellReason(event);
        return { seq: this.#seq, exitCode: event.exit_code };
      }
    }
    throw new Failure('hung_up', 'the daemon ended the stream before the command ended');
  }

  /** Puts the terminal, the signals and the streams back. Idempotent. */
  end(): void {
    for (const cleanup of this.#cleanups.splice(0).toReversed()) cleanup();
    this.#connection.close();
    this.#stdout?.close();
    this.#stderr?.close();
  }

  explain(cause: unknown, id: string): unknown {
    if (cause instanceof CliFailure) return cause;
    const detail = cause instanceof Error ? cause.message : String(cause);
    const where = this.#seq === 0 ? '' : `; the command goes on, its output: squash logs ${id} ${this.#seq}`;
    return new CliFailure('unreachable', `${detail}${where}`, exitCodes.execFailed);
  }

  async #print(data: Buffer): Promise<void> {
    if (this.#wish.output === 'discard') return;
    const sink =
      data[0] === 2
        ? (this.#stderr ??= openOutputSink(standardError))
        : (this.#stdout ??= openOutputSink(standardOutput));
    try {
      if (this.#questions === undefined) await sink.write(data.subarray(1));
      else await this.#questions.print(data.subarray(1), sink.write);
    } catch (cause) {
      // The daemon sees the client gone and sends the command SIGHUP.
      this.#connection.destroy();
      throw cause;
    }
  }

  async #started(seq: number): Promise<void> {
    this.#seq = seq;
    if (this.#wish.tty && isatty(0)) await this.#takeTerminal();
    if (this.#wish.questions !== undefined) await this.#ask(this.#wish.questions);
    if (this.#wish.stdin) {
      const input = openInputSource();
      this.#cleanups.push(input.close);
      this.#sendInput(input.chunks).catch(() => {
        // The connection broke: whoever reads messages finds out and tells.
      });
    }
  }

  async #takeTerminal(): Promise<void> {
    const { RawTerminal } = await import('./raw-terminal.ts');
    const terminal = RawTerminal.enter();
    const resize = (): void => this.#control({ type: 'resize', ...terminalSize() });
    let isSuspended = false;
    const resume = (): void => {
      if (isSuspended) return;
      terminal.resume();
      // Of a change meanwhile whoever was in the foreground has heard.
      process.emit('SIGWINCH', 'SIGWINCH');
      resize();
    };
    this.#suspend = async () => {
      if (isSuspended) return;
      isSuspended = true;
      this.#questions?.leave();
      terminal.suspend();
      await suspendJob();
      isSuspended = false;
      resume();
    };
    const stop = (): void => void this.#suspend();
    process.stdout.on('resize', resize);
    process.on('SIGTSTP', stop).on('SIGCONT', resume);
    this.#cleanups.push(() => {
      process.stdout.off('resize', resize);
      process.off('SIGTSTP', stop).off('SIGCONT', resume);
      terminal.restore();
    });
    // The window may have changed between the start message and now.
    resize();
  }

  /**
   * Whoever has the terminal is asked on it. Where the command's output goes elsewhere it is told alone: such a terminal is read by nobody,
   * and what is typed on it is meant for the shell.
   */
  async #ask(source: QuestionSource): Promise<void> {
    if (this.#wish.output === 'discard') return;
    const hasTerminal = this.#wish.tty && isatty(0) && isatty(1);
    if (!hasTerminal && !isatty(2)) return;
    const { RunQuestions: Questions, tellQuestions } = await import('./run-questions.ts');
    if (!hasTerminal) {
      const over = new AbortController();
      this.#cleanups.push(() => over.abort());
      return tellQuestions(source, over.signal);
    }
    const questions = new Questions({ source, redraw: () => this.#redraw() });
    this.#questions = questions;
    this.#cleanups.push(() => questions.end());
    questions.begin();
  }

  /** A program draws its screen anew where the size of that has changed. */
  #redraw(): void {
    const { rows, columns } = terminalSize();
    this.#control({ type: 'resize', rows: Math.max(1, rows - 1), columns });
    setTimeout(() => this.#control({ type: 'resize', ...terminalSize() }), redrawMs);
  }

  /** Somebody pressed Ctrl-Z: the command stands still, and so do we until we are told to go on. */
  async #stopped(): Promise<void> {
    await this.#suspend();
    this.#signal('SIGCONT');
  }

  async #sendInput(chunks: AsyncIterable<Buffer>): Promise<void> {
    for await (const chunk of chunks) {
      const own = this.#questions === undefined ? chunk : this.#questions.heard(chunk);
      if (own.length > 0) await this.#connection.sendBinary(own);
    }
    this.#questions?.leave();
    // A terminal has no end of input of its own: Ctrl-D is how one is typed.
    if (this.#wish.tty) await this.#connection.sendBinary(Buffer.from([4]));
    else this.#control({ type: 'stdin_eof' });
  }

  #signal(name: NodeJS.Signals): void {
    this.#control({ type: 'signal', signal: signalNumbers[name] ?? 15 });
  }

  #control(message: ExecControl): void {
    this.#connection.sendText(JSON.stringify(message)).catch(() => {
      // As above: the reader of messages tells.
    });
  }
}

function startMessage(wish: FullWish): Readonly<Record<string, unknown>> {
  const term = process.env['TERM'] || 'xterm-256color';
  return {
    type: 'start',
    argv: wish.argv,
    env: wish.env,
    stdin: wish.stdin,
    ...(wish.cwd !== undefined && { cwd: wish.cwd }),
    ...(wish.user !== undefined && { user: wish.user }),
    ...(wish.timeoutMs !== undefined && { timeout_ms: wish.timeoutMs }),
    ...(wish.tty && { tty: { ...terminalSize(), term } }),
    ...(wish.hasJobs && { job_control: true }),
  };
}

/**
 * `exec_failed` names the step that failed and errno. Only a program that is not there is 127: its directory
 * or user is the caller's to mend, and 126 tells so.
 */
function refusal(event: Extract<ExecEvent, { type: 'error' }>): CliFailure {
  if (event.code !== 'exec_failed') return new CliFailure(event.code, event.message, exitCodes.execFailed);
  const missing = /: the program: [^:]*\((ENOENT|ENOTDIR)\)\.$/.test(event.message);
  return new CliFailure(event.code, event.message, missing ? exitCodes.notFound : exitCodes.notRunnable);
}

const reasons: Readonly<Partial<Record<ExitEvent['reason'], string>>> = {
  timed_out: 'the command ran out of time',
  oom_killed: 'the command was killed: the sandbox is out of memory',
  upper_full: 'the commands were killed: the sandbox holds more than its writable layer may',
  layers_changed: 'the command was ended: the sandbox’s layers changed',
  destroyed: 'the command was ended: the sandbox was destroyed',
  lost: 'the command’s end was lost: the sandbox’s first process died',
};

/** An end that the command did not choose is told, so that a 137 is no riddle. */
function tellReason(event: ExitEvent): void {
  const sentence = reasons[event.reason];
  if (sentence !== undefined) printNote(`squash: ${sentence} (${event.reason})`);
}
