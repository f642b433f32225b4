/**
 * The other end of `@squash/sdk/srt`: settings and answers come down from the program that wrapped the command, questions about hosts
 * and refusals go up. A program that is gone answers nothing, and what it would have been asked is refused in time.
 */
import type { ApprovalInfo } from '@squash/contract/approvals';
import type { EgressDecisionInfo } from '@squash/contract/egress';
import { connect, type Socket } from 'node:net';
import { approvalPath, type ApprovalPage, approvalsPath } from '../approvals.ts';
import { apiPath, type Client } from '../client/client.ts';
import { CliFailure } from '../failure.ts';
import { visible } from '../output/print.ts';
import { Lines } from './control-lines.ts';

export interface SessionSettings {
  readonly settings: unknown;
  readonly shell?: string;
  readonly asks?: boolean;
}

interface Message {
  readonly settings?: unknown;
  readonly answer?: Answer;
}

interface Answer {
  readonly id: string;
  readonly allow: boolean;
  readonly reason?: string;
}

const lookMs = 150;
/** Before it says what is asked for. */
const firstMs = 10_000;
const refusedMax = 100;

export class SrtSession implements Disposable {
  readonly first: SessionSettings;
  readonly #socket: Socket;
  readonly #asked = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  /** What came before there is a box. */
  readonly #early: Message[] = [];
  #take: (message: Message) => void = (message) => void this.#early.push(message);

  private constructor(socket: Socket, first: SessionSettings) {
    this.#socket = socket;
    this.first = first;
  }

  /** @throws session_lost */
  static async join(path: string): Promise<SrtSession> {
    const socket = connect(path);
    const lines = new Lines();
    const { promise, resolve, reject } = Promise.withResolvers<SessionSettings>();
    const lost = (): void =>
      reject(new CliFailure('session_lost', 'the program that wrapped this command is gone'));
    const timer = setTimeout(lost, firstMs);
    socket.on('error', lost).on('close', lost);
    let session: SrtSession | undefined;
    socket.on('data', (part: Buffer) => {
      for (const line of lines.add(part)) {
        const message: unknown = parsed(line);
        if (typeof message !== 'object' || message === null) continue;
        if (session === undefined) {
          session = new SrtSession(socket, message as SessionSettings);
          resolve(session.first);
        } else session.#take(message);
      }
    });
    try {
      await promise;
    } finally {
      clearTimeout(timer);
    }
    if (session === undefined) throw new CliFailure('session_lost', 'the program said nothing');
    socket.unref();
    return session;
  }

  /** @param change takes new settings, as text */
  begin(client: Client, box: string, change: (text: string) => Promise<void>): void {
    let last = Promise.resolve();
    this.#take = ({ settings, answer }) => {
      if (settings !== undefined) last = last.then(async () => await change(JSON.stringify(settings)));
      if (answer !== undefined) last = last.then(async () => await decide(client, answer));
    };
    for (const message of this.#early) this.#take(message);
    if (this.first.asks === true) this.#look(client, box);
  }

  #look(client: Client, box: string): void {
    this.#timer = setTimeout(() => {
      void this.#ask(client, box).finally(() => {
        if (this.#timer !== undefined) this.#look(client, box);
      });
    }, lookMs);
  }

  async #ask(client: Client, box: string): Promise<void> {
    let page: ApprovalPage;
    try {
      page = await client.get<ApprovalPage>(approvalsPath({ state: 'pending', sandbox: box, limit: 1_000 }));
    } catch (failure) {
      // The box or its daemon is gone: the stream of the command tells.
      if (failure instanceof CliFailure) return;
      throw failure;
    }
    for (const { id, host, address, port } of page.items.toReversed()) {
      if (this.#asked.has(id)) continue;
      this.#asked.add(id);
      this.#send({ ask: { id, host: host ?? address ?? '', port } });
    }
  }

  /** What the network refused, before the box is removed. */
  async tellRefused(client: Client, box: string): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    try {
      const path = apiPath(['v1', 'sandboxes', box, 'egress'], { limit: 1_000 });
      const { decisions } = await client.get<{ readonly decisions: readonly EgressDecisionInfo[] }>(path);
      const lines = decisions.filter(({ verdict }) => verdict !== 'allowed').map(refusedLine);
      for (const line of [...new Set(lines)].slice(-refusedMax)) this.#send({ refused: line });
    } catch (failure) {
      // How the command ended counts; what it was refused is told where it can be.
      if (!(failure instanceof CliFailure)) throw failure;
    }
  }

  #send(message: object): void {
    if (this.#socket.writable) this.#socket.write(`${JSON.stringify(message)}\n`);
  }

  async flush(): Promise<void> {
    if (!this.#socket.writable) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#socket.once('close', () => resolve());
    this.#socket.end(() => resolve());
    await promise;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#socket.destroy();
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

async function decide(client: Client, { id, allow, reason }: Answer): Promise<void> {
  try {
    await client.post<ApprovalInfo>(approvalPath(id), {
      decision: allow ? 'allow' : 'deny',
      scope: 'once',
      ...(reason !== undefined && { reason: reason.slice(0, 200) }),
    });
  } catch (failure) {
    // Too late: it was refused.
    if (!(failure instanceof CliFailure)) throw failure;
  }
}

function refusedLine({ kind, host, address, port, rule, method, path }: EgressDecisionInfo): string {
  const place = `${host ?? address ?? '-'}${port === null ? '' : `:${port}`}`;
  return visible(`${kind} ${method === null ? '' : `${method} `}${place}${path ?? ''} refused (${rule})`);
}
