/**
 * An agent's channel: HTTP on connections that its sandbox made to `caller.squash.internal`. There are no shared files.
 *
 * The trust argument: which sandbox a connection comes from is the network's word (its own network namespace, its own relay), and
 * one channel serves one run's sandbox. So nothing that is said here can name another group: no header, no path, no body is
 * asked who speaks.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { z } from 'zod';
import { TokenBucket } from '@squash/base/token-bucket';
import { AppError } from '@squash/contract/errors';
import { actionRequestSchema } from '@squash/contract/actions';
import { groupLimits } from '@squash/contract/group-limits';
import { chatNameSchema } from '@squash/contract/groups';
import { issueSentence } from '@squash/contract/issue-sentence';
import { safeParse } from '@squash/contract/safe-parse';
import type { Actor } from './act-table.ts';
import type { Acts } from './acts.ts';
import type { McpAnswer } from './channel-mcp.ts';
import type { Views } from './views.ts';

export interface ChannelOptions {
  readonly actor: Actor;
  readonly acts: Pick<Acts, 'ask' | 'find'>;
  readonly views: Views;
  /** Something was stored: a run may begin. */
  readonly changed: () => void;
  /** The agent has asked for an action that is kept. */
  readonly active: () => void;
}

interface Answer {
  readonly status: number;
  readonly body: object;
}

/** Of the MCP server, as it has it. */
type Said = Answer | McpAnswer;

/** An agent that begins a request and does not end it. */
const requestMs = 30_000;

export class Channel implements Disposable {
  readonly #options: ChannelOptions;
  readonly #server: Server;
  readonly #open = new Set<Duplex>();
  /** Connections that have had their request. */
  readonly #served = new WeakSet<Duplex>();
  /** Those that are being taken. */
  #coming = 0;
  #isOver = false;
  readonly #rate = new TokenBucket(groupLimits.requestRate, performance.now());

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#server = createServer(
      { maxHeaderSize: 8_192 },
      (request, response) => void this.#serve(request, response),
    );
    // Node would answer by itself, without a rate and on the same connection again.
    this.#server.on('checkExpectation', (request, response) => void this.#serve(request, response));
    this.#server.on('clientError', (_error, socket: Duplex) => socket.destroy());
  }

  get isFull(): boolean {
    return this.#isOver || this.#open.size + this.#coming >= groupLimits.connectionsMax;
  }

  /** One that nobody takes is reset by itself. */
  async accept(take: () => Promise<Duplex>): Promise<void> {
    if (this.isFull) return;
    this.#coming += 1;
    try {
      this.#attend(await take());
    } catch {
      // Who made it has given up.
    } finally {
      this.#coming -= 1;
    }
  }

  #attend(connection: Duplex): void {
    connection.on('error', () => undefined);
    // Its run has ended while it was on its way.
    if (this.#isOver) return void connection.destroy();
    this.#open.add(connection);
    const timer = setTimeout(() => connection.destroy(), requestMs);
    connection.once('close', () => {
      clearTimeout(timer);
      this.#open.delete(connection);
    });
    this.#server.emit('connection', connection);
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    for (const connection of this.#open) connection.destroy();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request;
    // Those that come in one piece are all answered in one turn of the event loop, in which the daemon does nothing else.
    if (this.#served.has(socket)) return void socket.destroy();
    this.#served.add(socket);
    const said = await this.#answer(request).catch(refusal);
    if (response.destroyed) return;
    const { text, contentType } =
      'text' in said ? said : { text: `${JSON.stringify(said.body)}\n`, contentType: 'application/json' };
    // Each request has a connection of its own: then a time bounds both.
    response.writeHead(said.status, {
      ...(contentType !== null && { 'content-type': contentType }),
      connection: 'close',
      'content-length': Buffer.byteLength(text),
    });
    response.end(text);
  }

  async #answer(request: IncomingMessage): Promise<Said> {
    if (!this.#rate.take(performance.now()))
      return { status: 429, body: { error: 'rate', message: `Ask again in ${this.#rate.waitMs} ms` } };
    // Not as a URL: one may begin with a host, and climb.
    const [path = '', query] = (request.url ?? '').split('?', 2);
    const asked = new URLSearchParams(query);
    const [, noun = '', name, more] = path.split('/');
    if (more !== undefined) throw new AppError('not_found', addresses);
    const route = `${request.method} ${noun}`;
    if (route === 'POST actions' && name === undefined) return this.#ask(jsonOf(await bodyOf(request)));
    if (noun === 'mcp' && name === undefined) return await this.#mcp(request);
    if (request.method !== 'GET' || (name === undefined) === (noun === 'actions'))
      throw new AppError('not_found', addresses);
    if (name === undefined) return { status: 200, body: this.#look(noun, asked) };
    return { status: 200, body: this.#look('action', new URLSearchParams({ id: decoded(name) })) };
  }

  /** @throws not_found, action_not_found, invalid_request, forbidden and what else a view refuses with */
  #look(noun: string, asked: URLSearchParams): object {
    const { acts, views, actor } = this.#options;
    const chat = (): string => parsed(chatNameSchema, asked.get('chat'));
    switch (noun) {
      case 'action': {
        const action = acts.find(actor.group, asked.get('id') ?? '');
        if (action !== undefined) return action;
        throw new AppError('action_not_found', 'The group has asked for no action of this id');
      }
      case 'self':
        return views.self(actor);
      case 'groups':
        return views.groups(actor);
      case 'chats':
        return views.chats(actor);
      case 'runs':
        return views.runs(actor, asked.get('group') ?? actor.group);
      case 'messages':
        return views.messages(actor, chat(), Number(asked.get('after') ?? 0));
      case 'schedules':
        return views.schedules(actor, asked.has('chat') ? chat() : undefined);
      default:
        throw new AppError('not_found', addresses);
    }
  }

  async #mcp(request: IncomingMessage): Promise<McpAnswer> {
    const message = request.method === 'POST' ? jsonOf(await bodyOf(request)) : undefined;
    // One request may hold as many calls as its bytes do, and each may be answered with megabytes: the rate is of requests.
    if (Array.isArray(message))
      throw new AppError('invalid_request', 'A request of MCP is one message, not several');
    const { answerMcp } = await import('./channel-mcp.ts');
    return await answerMcp(asWebRequest(request), message, {
      chat: this.#options.views.self(this.#options.actor).chat,
      ask: (asked) => this.#ask(asked),
      look: (noun, asked) => this.#look(noun, asked),
    });
  }

  #ask(body: unknown): Answer {
    const { acts, actor, changed, active } = this.#options;
    const asking = acts.ask(actor, parsed(actionRequestSchema, body));
    if (asking.kind === 'refused') return { status: 409, body: { state: 'refused', rule: asking.rule } };
    if (asking.isNew) active();
    changed();
    return { status: statuses[asking.action.state], body: asking.action };
  }
}

const addresses =
  'The channel has POST /actions and GET /actions/ID, /self, /groups, /chats, /runs, /messages, /schedules; and POST /mcp';
const statuses = { done: 200, held: 202, denied: 403, failed: 409 } as const;

/** @throws invalid_request */
function parsed<T extends z.ZodType>(schema: T, input: unknown): z.output<T> {
  const result = safeParse(schema, input, { error: issueSentence });
  if (result.success) return result.data;
  throw new AppError('invalid_request', result.error.issues[0]?.message ?? 'The request is malformed');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new AppError('invalid_request', 'The address is malformed');
  }
}

/** @throws body_too_large */
async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > groupLimits.requestBytesMax)
      throw new AppError('body_too_large', `A request has ${groupLimits.requestBytesMax} bytes at most`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** @throws invalid_json */
function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new AppError('invalid_json', 'The body is no JSON');
  }
}

/** Without its body, which is read by then; its address says nothing that is used. @throws invalid_request for a method that none may have */
function asWebRequest({ method = '', headers, socket }: IncomingMessage): Request {
  const gone = new AbortController();
  socket.once('close', () => gone.abort());
  const plain = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  try {
    return new Request('http://channel/mcp', { method, headers: plain, signal: gone.signal });
  } catch {
    throw new AppError('invalid_request', 'The request is malformed');
  }
}

function refusal(error: unknown): Answer {
  if (!(error instanceof AppError))
    return { status: 500, body: { error: 'internal', message: 'The channel failed' } };
  const status = error.code === 'internal' || error.code === 'disk_full' ? 503 : error.status;
  return { status, body: { error: error.code, message: error.message } };
}
