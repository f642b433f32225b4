/**
 * The user's ssh-agent as a box has it, for as long as its command line runs: its keys are listed and sign, or one of them. Nothing is
 * added, removed, locked or extended, and each signature is told.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CliFailure, errorCode, exitCodes, Failure } from '../failure.ts';
import { printNote, visible } from '../output/print.ts';
import {
  type AgentRequest,
  failureAnswer,
  fingerprint,
  Frames,
  type Identity,
  identitiesMessage,
  identitiesRequest,
  readIdentities,
  readRequest,
  signatureMessage,
  signMessage,
} from './agent-protocol.ts';

export interface AgentWish {
  /** Of the agent. */
  readonly socket: string;
  /** Fingerprints or comments of the only keys; undefined: all. */
  readonly keys: readonly string[] | undefined;
}

/** More are closed at once. */
const connectionsMax = 32;

export class AgentFilter implements Disposable {
  /** What the box is shown. */
  readonly path: string;
  readonly #wish: AgentWish;
  readonly #directory: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(wish: AgentWish, directory: string) {
    this.#wish = wish;
    this.#directory = directory;
    this.path = join(directory, 'agent.sock');
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      void this.#serve(socket);
    });
    this.#server.maxConnections = connectionsMax;
  }

  /** @throws agent_unreachable where no agent answers, or has no such key */
  static async listen(wish: AgentWish): Promise<AgentFilter> {
    const identities = await withAgent(wish.socket, listKeys).catch((cause: unknown) => {
      throw new CliFailure(
        'agent_unreachable',
        `no ssh-agent answers at ${visible(wish.socket)}: ${errorCode(cause) ?? (cause as Error).message}`,
        exitCodes.execFailed,
      );
    });
    const missing = wish.keys?.find((key) => !identities.some((each) => isMeant(each, [key])));
    if (missing !== undefined)
      throw new CliFailure(
        'agent_unreachable',
        `the ssh-agent has no key "${visible(missing)}"; to list what it has: ssh-add -l`,
        exitCodes.execFailed,
      );
    const filter = new AgentFilter(wish, mkdtempSync(join(tmpdir(), 'squash-agent-')));
    try {
      filter.#server.listen(filter.path);
      await once(filter.#server, 'listening');
    } catch (cause) {
      filter[Symbol.dispose]();
      throw cause;
    }
    return filter;
  }

  async #serve(socket: Socket): Promise<void> {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    socket.on('error', () => undefined);
    const frames = new Frames();
    try {
      // The next message is read when the last one is answered: nobody fills our memory.
      for await (const part of socket) {
        const messages = frames.take(part as Buffer);
        if (messages === undefined) throw new Failure('agent_unreachable', 'no message of the protocol');
        for (const message of messages) await written(socket, await this.#answer(readRequest(message)));
      }
    } catch {
      // The box's end is gone, or says what none says.
      socket.destroy();
    }
    socket.end();
  }

  async #answer(request: AgentRequest): Promise<Buffer> {
    if (request.type === 'other') return failureAnswer;
    try {
      return await withAgent(this.#wish.socket, async (ask) => {
        const keys = (await listKeys(ask)).filter((each) => isMeant(each, this.#wish.keys));
        if (request.type === 'identities') return identitiesMessage(keys);
        const identity = keys.find(({ key }) => key.equals(request.key));
        const signature = identity && signatureMessage(await ask(signMessage(request)));
        if (identity === undefined || signature === undefined) return failureAnswer;
        printNote(`squash: the box signed with ${nameOf(identity)}`);
        return signature;
      });
    } catch {
      // The agent went away, or says what none says.
      return failureAnswer;
    }
  }

  /** The box that is there has the socket itself: a command line that is killed leaves no file. */
  forgetPath(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  [Symbol.dispose](): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    this.forgetPath();
  }
}

function isMeant({ key, comment }: Identity, wanted: AgentWish['keys']): boolean {
  return wanted === undefined || wanted.includes(comment.toString()) || wanted.includes(fingerprint(key));
}

function nameOf({ key, comment }: Identity): string {
  return `the key "${visible(comment.toString().slice(0, 200))}" (${fingerprint(key)})`;
}

type Ask = (message: Buffer) => Promise<Buffer>;

async function listKeys(ask: Ask): Promise<readonly Identity[]> {
  const identities = readIdentities(await ask(identitiesRequest()));
  if (identities === undefined) throw new Failure('agent_unreachable', 'what answers is no ssh-agent');
  return identities;
}

/** One question after another, each with one answer. */
async function withAgent<T>(path: string, work: (ask: Ask) => Promise<T>): Promise<T> {
  const socket = connect(path);
  const answers = answersOf(socket);
  try {
    await once(socket, 'connect');
    return await work(async (message) => {
      socket.write(message);
      const { value, done } = await answers.next();
      if (done === true) throw new Failure('agent_unreachable', 'the ssh-agent broke off');
      return value;
    });
  } finally {
    socket.destroy();
  }
}

async function* answersOf(socket: Socket): AsyncGenerator<Buffer, void, void> {
  const frames = new Frames();
  for await (const part of socket) {
    const messages = frames.take(part as Buffer);
    if (messages === undefined) return;
    yield* messages;
  }
}

async function written(socket: Socket, answer: Buffer): Promise<void> {
  if (socket.write(answer) || socket.destroyed) return;
  await Promise.race([once(socket, 'drain'), once(socket, 'close')]);
}
