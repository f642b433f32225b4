/**
 * A shell or a command of an SSH session: one stream of `sandbox.exec_stream`, with the channel as its input and output.
 *
 * A client that goes away ends its command with SIGHUP, as the API has it; what the command left in the background stays.
 */
import type { ExecControl, ExecEvent } from '@squash/contract/exec';
import { ApiError, type Daemon, sandboxPath } from './daemon.ts';
import { type ChannelPipe, ChannelGoneError } from './channel.ts';
import type { Messages } from './messages.ts';

export interface Terminal {
  readonly rows: number;
  readonly columns: number;
  readonly term: string;
}

export interface CommandWish {
  readonly daemon: Daemon;
  readonly sandbox: string;
  /** Of the sandbox; undefined: root. */
  readonly user: string | undefined;
  /** Undefined: a login shell. */
  readonly command: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly terminal: Terminal | undefined;
}

/** How a command ended, as the channel tells it. */
export type CommandEnd =
  | { readonly type: 'status'; readonly code: number }
  | { readonly type: 'signal'; readonly signal: number };

/** What `ssh` itself ends with where something else than the command failed. */
const failed = 255;

/** At home, by the shell that a person would get there. */
const prologue =
  ': ssh; cd 2>/dev/null || cd /; if [ -x /bin/bash ]; then SHELL=/bin/bash; else SHELL=/bin/sh; fi; export SHELL; ';

/** Runs it to its end. @throws ChannelGoneError where the client has gone before */
export class Command {
  readonly #wish: CommandWish;
  readonly #pipe: ChannelPipe;
  #messages: Messages | undefined;
  /** What the client asked for before the command was started. */
  readonly #waiting: ExecControl[] = [];

  constructor(wish: CommandWish, pipe: ChannelPipe) {
    this.#wish = wish;
    this.#pipe = pipe;
  }

  async run(): Promise<CommandEnd> {
    try {
      return await this.#run();
    } catch (cause) {
      if (cause instanceof ChannelGoneError || this.#pipe.gone.aborted) throw cause;
      await this.#tell(cause instanceof ApiError ? cause.message : 'the connection to the daemon broke');
      return { type: 'status', code: failed };
    } finally {
      this.#messages?.close();
    }
  }

  resize(rows: number, columns: number): void {
    this.#control({ type: 'resize', rows, columns });
  }

  signal(signal: number): void {
    this.#control({ type: 'signal', signal });
  }

  async #run(): Promise<CommandEnd> {
    const { daemon, sandbox } = this.#wish;
    const messages = await daemon.webSocket(sandboxPath(sandbox, 'exec'), 'squash.exec.v1');
    const leave = (): void => messages.terminate();
    this.#pipe.gone.addEventListener('abort', leave, { once: true });
    if (this.#pipe.gone.aborted) leave();
    await messages.send(JSON.stringify(startMessage(this.#wish)));
    this.#messages = messages;
    for (const control of this.#waiting.splice(0)) this.#control(control);
    // Its failures are the connection's, of which the reader of messages hears as well.
    this.#sendInput(messages).catch(() => undefined);
    return await this.#readOutput(messages);
  }

  async #readOutput(messages: Messages): Promise<CommandEnd> {
    for (;;) {
      const message = await messages.receive();
      if (message === undefined) {
        throw new ApiError('unreachable', 'the daemon closed the connection; the command goes on');
      }
      if (message.type === 'binary') {
        await this.#pipe.write(message.data.subarray(1), message.data[0] === 2 ? 'stderr' : 'stdout');
        continue;
      }
      const event = JSON.parse(message.text) as ExecEvent;
      if (event.type === 'error') throw new ApiError(event.code, event.message);
      if (event.type !== 'exit') continue;
      const sentence = reasons[event.reason];
      if (sentence !== undefined) await this.#tell(sentence);
      return event.signal === null
        ? { type: 'status', code: event.exit_code }
        : { type: 'signal', signal: event.signal };
    }
  }

  async #sendInput(messages: Messages): Promise<void> {
    for await (const chunk of this.#pipe.input()) await messages.send(chunk);
    // A terminal has no end of input of its own: Ctrl-D is how one is typed.
    if (this.#wish.terminal === undefined) this.#control({ type: 'stdin_eof' });
    else await messages.send(Buffer.from([4]));
  }

  #control(control: ExecControl): void {
    if (this.#messages === undefined) {
      // A client can send any number of these before the daemon has answered: the last ones count.
      if (this.#waiting.push(control) > 16) this.#waiting.shift();
      return;
    }
    // As for input.
    this.#messages.send(JSON.stringify(control)).catch(() => undefined);
  }

  async #tell(text: string): Promise<void> {
    const end = this.#wish.terminal === undefined ? '\n' : '\r\n';
    const line = `squash: ${visible(text)}${end}`;
    await this.#pipe.write(Buffer.from(line), this.#wish.terminal === undefined ? 'stderr' : 'stdout');
  }
}

/** A sandbox's words may stand in the daemon's sentences. */
export function visible(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, '?');
}

function startMessage({ command, env, user, terminal }: CommandWish) {
  const script = `${prologue}${command === undefined ? 'exec "$SHELL" -l' : 'exec "$SHELL" -c "$1"'}`;
  const name = user === undefined ? { USER: 'root', LOGNAME: 'root' } : {};
  return {
    type: 'start',
    argv: ['/bin/sh', '-c', script, 'sh', ...(command === undefined ? [] : [command])],
    env: { ...name, ...env },
    stdin: true,
    ...(user === undefined ? {} : { user }),
    ...(terminal === undefined ? {} : { tty: terminal }),
  };
}

const reasons: Readonly<Record<string, string>> = {
  timed_out: 'the command ran out of time',
  oom_killed: 'the command was killed: the sandbox is out of memory',
  upper_full: 'the commands were killed: the sandbox holds more than its writable layer may',
  layers_changed: 'the command was ended: the sandbox’s layers changed',
  destroyed: 'the command was ended: the sandbox was destroyed',
  lost: 'the command’s end was lost: the sandbox’s first process died',
};
