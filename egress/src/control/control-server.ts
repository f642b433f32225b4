/**
 * Serves `run/egress-api.sock`: the daemon's requests, parsed by `protocol.ts`, carried out by whoever is handed in.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type SandboxId, sandboxIdSchema } from '@squash/contract/ids';
import { safeParse } from '@squash/contract/safe-parse';
import { errorText } from '@squash/base/bug';
import type { Log } from '@squash/base/log';
import { z } from 'zod';
import { egressLimits as limits } from '../limits.ts';
import { listenPrivately } from '../listen.ts';
import { streamDecisions, streamOffer, streamQuestions } from './decision-stream.ts';
import type { Questions } from '../approvals/questions.ts';
import type { CallerPort, Callers } from '../connections/callers.ts';
import {
  type EgressApplied,
  type EgressChanged,
  type EgressChanges,
  type EgressDecision,
  type EgressDecisionQuery,
  type EgressDecisions,
  type EgressJudged,
  type EgressQuestion,
  type EgressStats,
  type EgressSync,
  type EgressSynced,
  bytesProtocol,
  egressAnswerSchema,
  egressChangesSchema,
  egressDecisionQuerySchema,
  egressOfferSchema,
  egressQuestionSchema,
  egressSyncSchema,
  type EgressTraffic,
  egressTrafficQuestionSchema,
} from '@squash/contract/egress-protocol';

export interface ControlHandlers {
  readonly sync: (sync: EgressSync) => Promise<EgressSynced>;
  /** @throws ControlRefusal */
  readonly change: (changes: EgressChanges) => EgressChanged;
  readonly remove: (id: string) => EgressApplied;
  /** @throws ControlRefusal */
  readonly judge: (question: EgressQuestion) => Promise<EgressJudged>;
  readonly decisions: (query: EgressDecisionQuery) => EgressDecisions;
  readonly follow: (
    query: EgressDecisionQuery,
    onRows: (rows: readonly EgressDecision[]) => void,
  ) => Disposable;
  readonly traffic: (ids: readonly SandboxId[]) => EgressTraffic;
  readonly questions: Pick<Questions, 'answer' | 'follow'>;
  readonly callers: Pick<Callers, 'offer' | 'waits' | 'take' | 'refuse'>;
  /** @throws ControlRefusal */
  readonly checkOffer: (at: CallerPort) => void;
  readonly stats: () => EgressStats;
  readonly stop: () => void;
}

/** Answered to the daemon with its code. */
export class ControlRefusal extends Error {
  readonly status: 400 | 404 | 405 | 409 | 413;
  readonly code: string;

  constructor(status: ControlRefusal['status'], code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class ControlServer implements AsyncDisposable {
  readonly #handlers: ControlHandlers;
  readonly #log: Log;
  readonly #server: Server;
  readonly #stack = new AsyncDisposableStack();
  #followers = 0;

  constructor(handlers: ControlHandlers, log: Log) {
    this.#handlers = handlers;
    this.#log = log;
    this.#server = createServer({ keepAliveTimeout: 65_000 }, (request, response) => {
      void this.#serve(request, response);
    });
    this.#server.on('upgrade', (request, socket, head) => this.#take(request, socket as Socket, head));
  }

  async listen(path: string): Promise<void> {
    this.#stack.use(await listenPrivately(this.#server, path));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const cut = setTimeout(() => this.#server.closeAllConnections(), limits.stopMs);
    this.#server.closeIdleConnections();
    await this.#stack.disposeAsync();
    clearTimeout(cut);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = new URL(request.url ?? '/', 'http://egress');
      const [, part = '', id, ...more] = url.pathname.split('/');
      if (more.length > 0) throw notFound(url.pathname);
      if (part === 'decisions' && id === undefined) return this.#decisions(request, response, url);
      if (part === 'questions' && id === undefined) return this.#questions(request, response);
      if (part === 'callers' && id === undefined) return this.#callers(request, response, url);
      const answer = await this.#answer(request, part, id);
      reply(response, 200, answer);
    } catch (error) {
      this.#refuse(response, error);
    }
  }

  async #answer(request: IncomingMessage, part: string, id: string | undefined): Promise<unknown> {
    const { method = '' } = request;
    const route = `${method} ${part}${id === undefined ? '' : '/'}`;
    switch (route) {
      case 'PUT sync':
        return this.#handlers.sync(await readBody(request, egressSyncSchema));
      case 'PUT sandboxes':
        return this.#handlers.change(await readBody(request, egressChangesSchema));
      case 'DELETE sandboxes/':
        return this.#handlers.remove(parse(sandboxIdSchema, id));
      case 'POST judge':
        return this.#handlers.judge(await readBody(request, egressQuestionSchema));
      case 'POST traffic':
        return this.#handlers.traffic(await readBody(request, egressTrafficQuestionSchema));
      case 'POST questions/': {
        const { allow } = await readBody(request, egressAnswerSchema);
        if (this.#handlers.questions.answer(id ?? '', allow)) return {};
        throw new ControlRefusal(404, 'question_gone', 'nobody waits for it any more');
      }
      case 'DELETE callers/':
        this.#handlers.callers.refuse(id ?? '');
        return {};
      case 'GET stats':
        return this.#handlers.stats();
      case 'POST stop':
        // After the answer, which closes the connection.
        setImmediate(this.#handlers.stop);
        return {};
      default:
        throw notFound(`${method} /${part}`);
    }
  }

  #decisions(request: IncomingMessage, response: ServerResponse, url: URL): void {
    if (request.method !== 'GET') throw notFound(`${request.method ?? ''} /decisions`);
    const query = parse(egressDecisionQuerySchema, Object.fromEntries(url.searchParams));
    if (request.headers.accept !== 'text/event-stream') {
      return reply(response, 200, this.#handlers.decisions(query));
    }
    this.#takeFollower(response);
    streamDecisions(response, (onRows) => this.#handlers.follow(query, onRows));
  }

  #questions(request: IncomingMessage, response: ServerResponse): void {
    if (request.method !== 'GET') throw notFound(`${request.method ?? ''} /questions`);
    this.#takeFollower(response);
    streamQuestions(response, (follower) => this.#handlers.questions.follow(follower));
  }

  #callers(request: IncomingMessage, response: ServerResponse, url: URL): void {
    if (request.method !== 'GET') throw notFound(`${request.method ?? ''} /callers`);
    const at = parse(egressOfferSchema, Object.fromEntries(url.searchParams));
    this.#handlers.checkOffer(at);
    streamOffer(response, (follower) => this.#handlers.callers.offer(at, follower));
  }

  /** `GET /callers/{connection}`: from here on the socket is that connection's. */
  #take({ url = '' }: IncomingMessage, socket: Socket, head: Buffer): void {
    const [, id = ''] = /^\/callers\/([0-9a-f]+)$/.exec(url) ?? [];
    const { callers } = this.#handlers;
    const words = ['connection: Upgrade', `upgrade: ${bytesProtocol}`, '', ''].join('\r\n');
    if (!callers.waits(id)) return void socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${words}`);
    if (head.length > 0) socket.unshift(head);
    callers.take(id, socket);
  }

  #takeFollower(response: ServerResponse): void {
    if (this.#followers >= limits.followersMax) {
      throw new ControlRefusal(409, 'stream_limit', `${limits.followersMax} followers are there already`);
    }
    this.#followers += 1;
    response.once('close', () => {
      this.#followers -= 1;
    });
  }

  #refuse(response: ServerResponse, error: unknown): void {
    if (error instanceof ControlRefusal) {
      return reply(response, error.status, { code: error.code, message: error.message });
    }
    this.#log.error('control.fault', { error });
    reply(response, 500, { code: 'internal', message: errorText(error) });
  }
}

function reply(response: ServerResponse, status: number, answer: unknown): void {
  if (response.headersSent) return;
  const body = JSON.stringify(answer);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

function notFound(what: string): ControlRefusal {
  return new ControlRefusal(404, 'not_found', `nothing is served at ${what.slice(0, 200)}`);
}

function parse<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> {
  const parsed = safeParse(schema, value);
  if (parsed.success) return parsed.data;
  throw new ControlRefusal(400, 'invalid_request', z.prettifyError(parsed.error));
}

async function readBody<T extends z.ZodType>(request: IncomingMessage, schema: T): Promise<z.infer<T>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > limits.controlBodyBytesMax) {
      throw new ControlRefusal(
        413,
        'body_too_large',
        `the body is above ${limits.controlBodyBytesMax} bytes`,
      );
    }
    chunks.push(chunk);
  }
  let value: unknown;
  try {
    value = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    throw new ControlRefusal(400, 'invalid_json', 'the body is not valid JSON');
  }
  return parse(schema, value);
}
