/**
 * From a request to a handler and back: finds the operation, parses what came in, answers in the operation's
 * dialect. Handlers get values that can't be wrong and throw `AppError`.
 *
 * The order of the checks is part of the API: gate, address, method, parameters, query, content type, body size,
 * JSON, fields, and only then anything that depends on state.
 */
import type { IncomingMessage } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
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
import { type Context, Hono } from 'hono';
import type { Log } from '@squash/base/log';
import { anybody, type Caller } from './caller.ts';
import { type Answered, type Audit, auditLine } from './audit.ts';
import { type JsonObject, readJsonObject, refuseJsonUpload } from './body.ts';
import type { HttpCounters } from './counters.ts';
import { fileStream } from './file-stream.ts';
import { checkScope, parseParams, parsePart, queryOf, subjectOf, unknownFields } from './parse.ts';
import { pieceStream } from './piece-stream.ts';
import { asAppError, dialectOf, errorAnswer } from './problem.ts';
import type { Reply } from './reply.ts';
import type { Passed } from './server.ts';
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

type Env = { Bindings: HttpBindings & Passed };
type RequestContext = Context<Env>;

export function buildRouter(options: RouterOptions): Hono<Env> {
  const app = new Hono<Env>({ strict: false });
  const methods = new Map<string, string[]>();
  for (const [id, operation] of Object.entries(operations) as [OperationId, Operation][]) {
    const path = routePath(operation.path);
    methods.set(path, [...(methods.get(path) ?? []), operation.method]);
    const answer = (context: RequestContext): Promise<Response> => run(context, id, options);
    if (id === 'health') app.all(path, answer);
    else app.on(operation.method, path, answer);
  }
  for (const [path, allowed] of methods) {
    app.all(path, (context) => refuse(context, options, methodNotAllowed(allowed)));
  }
  for (const [path, sentence] of Object.entries(notOffered)) {
    const error = new AppError('not_offered', sentence);
    app.all(routePath(path), (context) => refuse(context, options, error));
    app.all(`${routePath(path)}/*`, (context) => refuse(context, options, error));
  }
  app.all('/cgi-bin/api/sandboxes/:id/:action', (context) =>
    refuse(context, options, unknownAction(context.req.param('action'))),
  );
  app.all('/cgi-bin/api/sandboxes/:id/:action/*', (context) =>
    refuse(context, options, unknownAction(context.req.param('action'))),
  );
  app.notFound((context) =>
    refuse(context, options, new AppError('not_found', 'not found: /openapi.json lists what is served')),
  );
  app.onError((error, context) => refuse(context, options, asAppError(error)));
  return app;
}

function routePath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1');
}

function unknownAction(action: string): AppError {
  return new AppError('not_found', `unknown action: ${action}`);
}

class MethodNotAllowed extends AppError {
  readonly allowed: string;

  constructor(allowed: readonly string[]) {
    super('method_not_allowed', `The address takes ${allowed.join(' and ')}`);
    this.allowed = [...allowed, ...(allowed.includes('GET') ? ['HEAD'] : [])].join(', ');
  }
}

function methodNotAllowed(allowed: readonly string[]): AppError {
  return new MethodNotAllowed(allowed);
}

function refuse(context: RequestContext, options: RouterOptions, error: AppError): Response {
  const response = errorResponse(error, { dialect: dialectOf(context.req.path), operation: 'none', options });
  tell(context, options, { operation: null, error, status: response.status, durationMs: 0 });
  return response;
}

function tell(
  { env: { caller, asked } }: RequestContext,
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

async function run(context: RequestContext, id: OperationId, options: RouterOptions): Promise<Response> {
  const operation: Operation = operations[id];
  const startedMs = options.monoMs();
  let subject: SentenceSubject = { sandboxesMax: options.sandboxesMax };
  let response: Response;
  let failure: AppError | undefined;
  let made: string | undefined;
  try {
    if (operation.webSocket !== undefined) {
      throw new AppError('upgrade_required', `Open a WebSocket with the subprotocol ${operation.webSocket}`);
    }
    const { caller } = context.env;
    checkScope(operation, caller);
    const raw = context.req.param() as Record<string, string>;
    subject = { ...subject, sandbox: raw['id'], job: raw['jobId'], module: raw['name'] };
    const params = parseParams(operation, raw);
    const query = parsePart(operation.query, queryOf(operation, context.req.query()));
    const object = await readBody(operation, context.env.incoming, options);
    subject = { ...subject, ...subjectOf(object) };
    const body = parsePart(operation.body, object);
    options.checkOwner(caller, params);
    const call = {
      params,
      query,
      body,
      unknownFields: unknownFields(operation, object),
      caller,
      header: (name: string) => context.req.header(name),
      incoming: context.env.incoming,
      /** Made only for those who ask: most handlers end by themselves. */
      get signal() {
        return AbortSignal.any([context.req.raw.signal, options.stopping]);
      },
      checkOwner: () => options.checkOwner(caller, params),
    };
    // One table types handlers and operations together; picking by a variable id loses that pairing.
    const handler = options.handlers[id as RequestOperationId] as Handler<Operation>;
    const answered = await handler(call as unknown as Call<Operation>);
    const reply = caller.owner === null ? answered : whileSeen(answered, call.checkOwner);
    made = madeSandbox(id, reply);
    response = replyResponse(reply, operation, {
      counters: options.counters,
      owner: caller.owner,
      isHead: context.req.raw.method === 'HEAD',
    });
    const unknown = call.unknownFields.length === 0 ? undefined : warningHeader(call.unknownFields);
    if (unknown !== undefined) response.headers.set('squash-warning', unknown);
  } catch (error) {
    failure = asAppError(error);
    response = errorResponse(failure, {
      dialect: operation.dialect,
      operation: id,
      options,
      subject,
    });
  }
  const durationMs = options.monoMs() - startedMs;
  options.counters.record(id, response.status, durationMs);
  const { status } = response;
  const sandbox = made ?? subject.sandbox;
  // Health is asked by machines every second, and by anybody.
  if (id !== 'health') tell(context, options, { operation: id, sandbox, error: failure, status, durationMs });
  options.log.debug('request', { operation: id, status: response.status });
  return response;
}

async function readBody(
  operation: Operation,
  incoming: IncomingMessage,
  options: RouterOptions,
): Promise<JsonObject | undefined> {
  if (operation.upload !== undefined) refuseJsonUpload(incoming, operation.upload.contentType);
  if (operation.body === undefined) return undefined;
  return await readJsonObject(incoming, { isStrict: options.isStrictContentType });
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

function replyResponse(reply: Reply, operation: Operation, options: ReplyOptions): Response {
  const status = operation.answers[0]?.status ?? 200;
  switch (reply.type) {
    case 'empty':
      return new Response(null, { status: reply.status ?? status, headers: { ...reply.headers } });
    case 'json':
      return new Response(JSON.stringify(reply.value), {
        status,
        headers: { ...reply.headers, 'content-type': 'application/json', 'cache-control': 'no-store' },
      });
    case 'bytes':
      return bytesResponse(reply, status, options);
    case 'text':
      return new Response(reply.text, { status, headers: { 'content-type': reply.contentType } });
    case 'file':
      return fileResponse(reply, status, options);
    case 'stream':
      return streamResponse(reply, status, options);
  }
}

function fileResponse(
  { file, bytes, contentType, onEnd }: Extract<Reply, { type: 'file' }>,
  status: number,
  { counters, isHead }: ReplyOptions,
): Response {
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
  return new Response(isHead ? null : body, { status, headers });
}

/** Whoever answers a HEAD with bytes has begun for nothing, so handlers do not. */
function bytesResponse(
  { pieces, bytes, contentType, onEnd, ...reply }: Extract<Reply, { type: 'bytes' }>,
  status: number,
  { counters }: ReplyOptions,
): Response {
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
  return new Response(body, { status: reply.status ?? status, headers });
}

function streamResponse(
  reply: Extract<Reply, { type: 'stream' }>,
  status: number,
  { counters, owner, isHead }: ReplyOptions,
): Response {
  const headers = {
    'content-type': reply.contentType,
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  };
  // Nobody would read it: an iteration that is begun and not read is never ended.
  if (isHead) return new Response(null, { status, headers });
  const release = reply.isCounted === true ? () => undefined : counters.streams.take(owner);
  const body = pieceStream({ pieces: reply.pieces, keepAlive: reply.keepAlive, onEnd: release });
  return new Response(body, { status, headers });
}

interface ErrorContext {
  readonly dialect: Dialect;
  readonly operation: string;
  readonly options: RouterOptions;
  readonly subject?: SentenceSubject;
}

function errorResponse(error: AppError, context: ErrorContext): Response {
  const { log } = context.options;
  if (error.code === 'internal') {
    const stack = error.cause instanceof Error ? error.cause.stack : String(error.cause);
    log.error('request.fault', { operation: context.operation, stack });
  }
  const { status, headers, body } = errorAnswer(error, context.dialect, context.subject);
  const allow = error instanceof MethodNotAllowed ? { allow: error.allowed } : {};
  return new Response(body, { status, headers: { ...headers, ...allow } });
}
