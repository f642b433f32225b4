/**
 * The way between a program that uses the module and one `squash srt` that somebody starts: a Unix socket in a directory of this user's
 * own, which takes one connection. Settings and answers go down, questions and refusals come up, a line of JSON each.
 */
import { createServer, type Server, type Socket } from 'node:net';
import type { SrtConfig } from './settings.ts';

export type AskAnswer = boolean | { readonly allow: false; readonly reason?: string };
export type SandboxAskCallback = (params: {
  readonly host: string;
  readonly port: number | undefined;
}) => Promise<AskAnswer> | AskAnswer;

export interface SessionOptions {
  readonly command: string;
  readonly shell: string;
  /** The settings as they are now. */
  readonly config: () => SrtConfig;
  readonly ask: SandboxAskCallback | undefined;
  readonly refused: (line: string) => void;
}

/** Of one line from the command line: more is no message of it. */
const lineCharsMax = 1_048_576;

export class Session {
  readonly #options: SessionOptions;
  readonly #server: Server;
  #socket: Socket | undefined;
  #isClosed = false;

  private constructor(options: SessionOptions) {
    this.#options = options;
    this.#server = createServer((socket) => this.#connected(socket));
    // A command that nobody starts keeps no program alive.
    this.#server.unref();
  }

  static async open(path: string, options: SessionOptions): Promise<Session> {
    const session = new Session(options);
    await new Promise<void>((resolve, reject) => {
      session.#server.once('error', reject);
      session.#server.listen(path, resolve);
    });
    return session;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get isConnected(): boolean {
    return this.#socket !== undefined && !this.#isClosed;
  }

  /** The settings have changed. */
  update(): void {
    this.#send({ settings: this.#options.config() });
  }

  /** A command that runs goes on under the rules that it has; what it would ask is refused. */
  close(): void {
    this.#isClosed = true;
    this.#server.close();
    this.#socket?.destroy();
  }

  #connected(socket: Socket): void {
    if (this.#socket !== undefined) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    this.#server.close();
    socket.unref();
    socket.on('error', () => {
      // The command line is gone; `close` follows.
    });
    socket.on('close', () => {
      this.#isClosed = true;
    });
    let rest = '';
    socket.setEncoding('utf8');
    socket.on('data', (part: string) => {
      const lines = `${rest}${part}`.split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > lineCharsMax) socket.destroy();
      for (const line of lines) this.#take(line);
    });
    const { config, shell, ask } = this.#options;
    this.#send({ settings: config(), shell, asks: ask !== undefined });
  }

  #take(line: string): void {
    let message: { readonly ask?: Question; readonly refused?: unknown };
    try {
      message = JSON.parse(line) as typeof message;
    } catch {
      this.#socket?.destroy();
      return;
    }
    if (typeof message.refused === 'string') this.#options.refused(message.refused);
    if (message.ask !== undefined) void this.#answer(message.ask);
  }

  /** Whatever is not clearly a yes is a no. */
  async #answer({ id, host, port }: Question): Promise<void> {
    let answer: unknown;
    try {
      answer = await this.#options.ask?.({ host, port });
    } catch {
      answer = false;
    }
    const reason =
      typeof answer === 'object' && answer !== null && 'reason' in answer && typeof answer.reason === 'string'
        ? answer.reason
        : undefined;
    this.#send({ answer: { id, allow: answer === true, ...(reason !== undefined && { reason }) } });
  }

  #send(message: object): void {
    if (this.#socket?.writable === true) this.#socket.write(`${JSON.stringify(message)}\n`);
  }
}

interface Question {
  readonly id: string;
  readonly host: string;
  readonly port: number;
}
