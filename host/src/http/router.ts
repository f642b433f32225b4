/**
 * From a request to a handler and back: finds the operation, parses what came in, answers in the operation's
 * dialect. Handlers get values that can't be wrong and throw `AppError`.
 *
 * The order of the checks is part of the API: gate, address, method, parameters, query, content type, body size,
 * JSON, fields, and only then anything that depends on state.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError, type Dialect } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { BodyOf, Operation, ParamsOf, QueryOf } from '@squash/contract/operations/operation';
import {
  notOffered,
  type OperationId,
  type OperationOf,
  operations,
} from '@squash/contract/operations/table';
import type { SentenceSubject } from '@squash/contract/seed-sentences';
import type { Log } from '@squash/base/log';
import type { Answer } from './answer.ts';
import { anybody, type Caller } from './caller.ts';
import { type Answered, type Audit, auditLine } from './audit.ts';
import { type JsonObject, readJsonObject, refuseJsonUpload } from './body.ts';
import type { HttpCounters } from './counters.ts';
import { fileStream } from './file-stream.ts';
import {
  checkScope,
  parseParams,
  parsePart,
  queryOf,
  refuseProto,
  subjectOf,
  unknownFields,
} from './parse.ts';
import { pieceStream } from './piece-stream.ts';
import { asAppError, dialectOf, errorAnswer } from './problem.ts';
import type { Reply } from './reply.ts';
import { Routes, targetOf, type Texts } from './routes.ts';
import type { Exchange } from './server.ts';
import { whileSeen } from './while-seen.ts';

interface Call<T extends Operation> {
  readonly params: ParamsOf<T>;
  readonly query: QueryOf<T>;
  readonly body: BodyOf<T>;
  /** Keys of the body that the operation does not know. */
  readonly unknownFields: readonly string[];
  readonly caller: Caller;
  /** A header of the request, by its lower-case name. */
  readonly header: (name: string) => string | undefined;
  /** The body of an upload; whoever reads it keeps its limits. */
  readonly incoming: IncomingMessage;
  /** Aborted when the client is gone or the daemon stops: for streams that would not end by themselves. */
  readonly signal: AbortSignal;
  /** For who has waited for a client: the id may have gone to another owner meanwhile. @throws sandbox_not_found */
  readonly checkOwner: () => void;
}

export type Handler<T extends Operation> = (call: Call<T>) => Promise<Reply> | Reply;
/** Every operation but those that only live on a WebSocket: `sockets.ts` has them. */
type RequestOperationId = {
  [Id in OperationId]: OperationOf<Id> extends { readonly webSocket: string } ? never : Id;
}[OperationId];
export type Handlers = { readonly [Id in RequestOperationId]: Handler<OperationOf<Id>> };
/** Those of one noun's operations. */
export type HandlersOf<T> = Pick<Handlers, keyof T & RequestOperationId>;

export interface RouterOptions {
  readonly handlers: Handlers;
  readonly isStrictContentType: boolean;
  readonly sandboxesMax: number;
  readonly counters: HttpCounters;
  readonly audit: Audit;
  readonly log: Log;
  /** Aborted when the daemon stops. */
  readonly stopping: AbortSignal;
  readonly monoMs: () => number;
  /** @throws sandbox_not_found where the operation's sandbox is another owner's */
  readonly checkOwner: (caller: Caller, params: unknown) => void;
}

/** Never rejects for what a handler throws: that is an answer. */
export type Router = (exchange: Exchange) => Promise<Answer>;

/** An operation for each method of an address. */
type Methods = Map<string, OperationId>;

export function buildRouter(options: RouterOptions): Router {
  const routes = new Routes<Methods>();
  for (const [id, { path, method }] of Object.entries(operations) as [OperationId, Operation][])
    routes.add(path, new Map()).set(id === 'health' ? anyMethod : method, id);
  return async (exchange) => {
    const answer = await route(exchange, routes, options);
    return exchange.incoming.method === 'HEAD' ? { ...answer, body: null } : answer;
  };
}

async function route(exchange: Exchange, routes: Routes<Methods>, options: RouterOptions): Promise<Answer> {
  const { path, query } = targetOf(exchange.incoming);
  const { method = 'GET' } = exchange.incoming;
  const asked = method === 'HEAD' ? 'GET' : method;
  const found = [...routes.find(path)];
  for (const { value, params } of found) {
    const id = value.get(anyMethod) ?? value.get(asked);
    if (id !== undefined) return await run({ ...exchange, params, query }, id, options);
  }
  const [first] = found;
  const error = first === undefined ? notServed(path) : new MethodNotAllowed([...first.value.keys()]);
  return refuse(exchange, options, error);
}

const anyMethod = '*';

interface RoutedExchange extends Exchange {
  readonly params: Texts;
  readonly query: Texts;
}

/** Addresses of which something can be said, with all below them. */
const missing = new Routes<string | undefined>();
for (const [path, sentence] of Object.entries(notOffered)) missing.add(path, sentence);
missing.add('/cgi-bin/api/sandboxes/{id}/{action}', undefined);

function notServed(path: string): AppError {
  const found = missing.findAbove(path);
  if (found === undefined) return new AppError('not_found', 'not found: /openapi.json lists what is served');
  const { value, params } = found;
  return value === undefined
    ? new AppError('not_found', `unknown action: ${params['action']}`)
    : new AppError('not_offered', value);
}

class MethodNotAllowed extends AppError {
  readonly allowed: string;

  constructor(allowed: readonly string[]) {
    super('method_not_allowed', `The address takes ${allowed.join(' and ')}`);
    this.allowed = [...allowed, ...(allowed.includes('GET') ? ['HEAD'] : [])].join(', ');
  }
}

function refuse(exchange: Exchange, options: RouterOptions, error: AppError): Answer {
  const dialect = dialectOf(exchange.incoming.url ?? '');
  const answer = errorToAnswer(error, { dialect, operation: 'none', options });
  tell(exchange, options, { operation: null, error, status: answer.status, durationMs: 0 });
  return answer;
}

function tell(
  { caller, asked }: Exchange,
  { audit }: RouterOptions,
  answered: Omit<Answered, 'caller' | 'requestId' | 'peer'>,
): void {
  const line = auditLine({ ...asked, caller, ...answered });
  // Who is nobody, at the gateway of SSH say, fills it with as many refusals as the gate's: few, and counted.
  if (caller === anybody && line.decision === 'refused') audit.writeBounded(line);
  else audit.write(line);
}

/** A sandbox that has its id from the daemon is known by its answer alone. */
function madeSandbox(id: OperationId, reply: Reply): string | undefined {
  if (!id.startsWith('sandbox.') || reply.type !== 'json') return undefined;
  const { value } = reply;
  const made = typeof value === 'object' && value !== null && 'id' in value ? value.id : undefined;
  return typeof made === 'string' ? made : undefined;
}

async function run(exchange: RoutedExchange, id: OperationId, options: RouterOptions): Promise<Answer> {
  const operation: Operation = operations[id];
  const startedMs = options.monoMs();
  let subject: SentenceSubject = { sandboxesMax: options.sandboxesMax };
  let answer: Answer;
  let failure: AppError | undefined;
  let made: string | undefined;
  try {
    if (operation.webSocket !== undefined) {
      throw new AppError('upgrade_required', `Open a WebSocket with the subprotocol ${operation.webSocket}`);
    }
    const { caller, incoming, params: raw } = exchange;
    checkScope(operation, caller);
    subject = { ...subject, sandbox: raw['id'], job: raw['jobId'], module: raw['name'] };
    const params = parseParams(operation, raw);
    const query = parsePart(operation.query, queryOf(operation, exchange.query));
    const object = await readBody(operation, incoming, options);
    subject = { ...subject, ...subjectOf(object) };
    const body = parsePart(operation.body, object);
    options.checkOwner(caller, params);
    const call = {
      params,
      query,
      body,
      unknownFields: unknownFields(operation, object),
      caller,
      header: (name: string) => headerOf(incoming, name),
      incoming,
      /** Made only for those who ask: most handlers end by themselves. */
      get signal() {
        return AbortSignal.any([goneOf(exchange.outgoing), options.stopping]);
      },
      checkOwner: () => options.checkOwner(caller, params),
    };
    // One table types handlers and operations together; picking by a variable id loses that pairing.
    const handler = options.handlers[id as RequestOperationId] as Handler<Operation>;
    const answered = await handler(call as unknown as Call<Operation>);
    const reply = caller.owner === null ? answered : whileSeen(answered, call.checkOwner);
    made = madeSandbox(id, reply);
    const replied = answerOf(reply, operation, {
      counters: options.counters,
      owner: caller.owner,
      isHead: incoming.method === 'HEAD',
    });
    answer = warned(replied, call.unknownFields);
  } catch (error) {
    failure = givenUp(error, exchange, options) ?? asAppError(error);
    answer = errorToAnswer(failure, {
      dialect: operation.dialect,
      operation: id,
      options,
      subject,
    });
  }
  const durationMs = options.monoMs() - startedMs;
  const { status } = answer;
  options.counters.record(id, status, durationMs);
  const sandbox = made ?? subject.sandbox;
  // Health is asked by machines every second, and by anybody.
  if (id !== 'health')
    tell(exchange, options, { operation: id, sandbox, error: failure, status, durationMs });
  options.log.debug('request', { operation: id, status });
  return answer;
}

/** What ends because the call's own signal says so is no fault. */
function givenUp(error: unknown, { outgoing }: Exchange, { stopping }: RouterOptions): AppError | undefined {
  if (!(error instanceof Error) || error.name !== 'AbortError') return undefined;
  if (outgoing.closed) return new AppError('invalid_request', 'the client left before it had its answer');
  if (stopping.aborted) return new AppError('shutting_down', 'The daemon is stopping: try again later');
  return undefined;
}

function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

/** Aborted when the client goes before it has its answer. */
function goneOf(outgoing: ServerResponse): AbortSignal {
  const gone = new AbortController();
  const abort = (): void => {
    if (!outgoing.writableFinished) gone.abort();
  };
  if (outgoing.closed) abort();
  else outgoing.once('close', abort);
  return gone.signal;
}

function warned(answer: Answer, unknown: readonly string[]): Answer {
  if (unknown.length === 0) return answer;
  return { ...answer, headers: { ...answer.headers, 'squash-warning': warningHeader(unknown) } };
}

async function readBody(
  operation: Operation,
  incoming: IncomingMessage,
  options: RouterOptions,
): Promise<JsonObject | undefined> {
  if (operation.upload !== undefined) refuseJsonUpload(incoming, operation.upload.contentType);
  if (operation.body === undefined) return undefined;
  const body = await readJsonObject(incoming, { isStrict: options.isStrictContentType });
  refuseProto(body);
  return body;
}

/** Names are the client's own bytes: JSON with everything outside ASCII escaped can't break a header. */
function warningHeader(fields: readonly string[]): string {
  const names = JSON.stringify(fields.slice(0, 8).map((field) => field.slice(0, 64)));
  return `unknown fields ${names.replaceAll(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}`;
}

interface ReplyOptions {
  readonly counters: HttpCounters;
  /** Of the caller. */
  readonly owner: string | null;
  readonly isHead: boolean;
}

function answerOf(reply: Reply, operation: Operation, options: ReplyOptions): Answer {
  const status = operation.answers[0]?.status ?? 200;
  switch (reply.type) {
    case 'empty':
      return { status: reply.status ?? status, headers: { ...reply.headers }, body: null };
    case 'json':
      return {
        status,
        headers: { ...reply.headers, 'content-type': 'application/json', 'cache-control': 'no-store' },
        body: JSON.stringify(reply.value),
      };
    case 'bytes':
      return bytesAnswer(reply, status, options);
    case 'text':
      return { status, headers: { 'content-type': reply.contentType }, body: reply.text };
    case 'file':
      return fileAnswer(reply, status, options);
    case 'stream':
      return streamAnswer(reply, status, options);
  }
}

function fileAnswer(
  { file, bytes, contentType, onEnd }: Extract<Reply, { type: 'file' }>,
  status: number,
  { counters, isHead }: ReplyOptions,
): Answer {
  counters.transfers += 1;
  const body = fileStream(file, () => {
    counters.transfers -= 1;
    onEnd();
  });
  if (isHead) void body.cancel();
  const headers = {
    'content-type': contentType,
    'content-length': `${bytes}`,
    'cache-control': 'no-store',
  };
  return { status, headers, body: isHead ? null : body };
}

/** Whoever answers a HEAD with bytes has begun for nothing, so handlers do not. */
function bytesAnswer(
  { pieces, bytes, contentType, onEnd, ...reply }: Extract<Reply, { type: 'bytes' }>,
  status: number,
  { counters }: ReplyOptions,
): Answer {
  counters.transfers += 1;
  const end = (): void => {
    counters.transfers -= 1;
    onEnd();
  };
  const body = pieceStream({ pieces, takenWithinMs: limits.downloadIdleMs, onEnd: end });
  const headers = {
    ...reply.headers,
    'content-type': contentType,
    ...(bytes === undefined ? {} : { 'content-length': `${bytes}` }),
    'cache-control': 'no-store',
  };
  return { status: reply.status ?? status, headers, body };
}

function streamAnswer(
  reply: Extract<Reply, { type: 'stream' }>,
  status: number,
  { counters, owner, isHead }: ReplyOptions,
): Answer {
  const headers = {
    'content-type': reply.contentType,
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  };
  // Nobody would read it: an iteration that is begun and not read is never ended.
  if (isHead) return { status, headers, body: null };
  const release = reply.isCounted === true ? () => undefined : counters.streams.take(owner);
  const body = pieceStream({ pieces: reply.pieces, keepAlive: reply.keepAlive, onEnd: release });
  return { status, headers, body };
}

interface ErrorContext {
  readonly dialect: Dialect;
  readonly operation: string;
  readonly options: RouterOptions;
  readonly subject?: SentenceSubject;
}

function errorToAnswer(error: AppError, context: ErrorContext): Answer {
  const { log } = context.options;
  if (error.code === 'internal') {
    const stack = error.cause instanceof Error ? error.cause.stack : String(error.cause);
    log.error('request.fault', { operation: context.operation, stack });
  }
  const { status, headers, body } = errorAnswer(error, context.dialect, context.subject);
  const allow = error instanceof MethodNotAllowed ? { allow: error.allowed } : {};
  return { status, headers: { ...headers, ...allow }, body };
}
