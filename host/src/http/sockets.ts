/**
 * Operations that live on a WebSocket: found by their address and parsed as requests are, and whatever can be refused
 * before the handshake is refused by an HTTP status.
 */
import type { IncomingMessage } from 'node:http';
import { AppError } from '@squash/contract/errors';
import type { Operation, ParamsOf, QueryOf } from '@squash/contract/operations/operation';
import { type OperationId, type OperationOf, operations } from '@squash/contract/operations/table';
import type { Log } from '@squash/base/log';
import { type Audit, auditLine } from './audit.ts';
import type { Caller } from './caller.ts';
import type { HttpCounters } from './counters.ts';
import { type MessageSocket, type UpgradeRequest, WebSocketUpgrader } from './message-socket.ts';
import { checkScope, parseParams, parsePart, queryOf } from './parse.ts';
import { asAppError } from './problem.ts';
import { refuseSocket } from './refuse-socket.ts';
import { Routes, targetOf, type Texts } from './routes.ts';
import type { Passed } from './server.ts';

interface SocketCall<T extends Operation> {
  readonly params: ParamsOf<T>;
  readonly query: QueryOf<T>;
  readonly caller: Caller;
  /** Again, later: an id may belong to another sandbox by then. @throws sandbox_not_found where that is another owner's */
  readonly checkOwner: () => void;
}

/** Resolves when the conversation is over; what fails in it the client is told there. */
export type Conversation = (socket: MessageSocket) => Promise<void>;
/** Looks at what is asked for before the handshake. @throws AppError, which becomes an HTTP answer */
export type SocketHandler<T extends Operation> = (
  call: SocketCall<T>,
) => Promise<Conversation> | Conversation;
type SocketOperationId = {
  [Id in OperationId]: OperationOf<Id> extends { readonly webSocket: string } ? Id : never;
}[OperationId];
export type SocketHandlers = { readonly [Id in SocketOperationId]: SocketHandler<OperationOf<Id>> };

export interface SocketOptions {
  readonly handlers: SocketHandlers;
  readonly checkOwner: (caller: Caller, params: unknown) => void;
  readonly counters: HttpCounters;
  readonly audit: Audit;
  readonly log: Log;
  readonly monoMs: () => number;
}

interface Route {
  readonly id: SocketOperationId;
  readonly operation: Operation;
  readonly upgrader: WebSocketUpgrader;
}

export class Sockets {
  readonly #options: SocketOptions;
  readonly #routes = new Routes<Route>();

  constructor(options: SocketOptions) {
    this.#options = options;
    for (const [id, operation] of Object.entries(operations) as [SocketOperationId, Operation][]) {
      const { webSocket, path } = operation;
      if (webSocket !== undefined)
        this.#routes.add(path, { id, operation, upgrader: new WebSocketUpgrader(webSocket) });
    }
  }

  /** Resolves when the connection is over. */
  async upgrade(request: UpgradeRequest, { caller, asked }: Passed): Promise<void> {
    const { counters, audit, log, monoMs } = this.#options;
    const startedMs = monoMs();
    using stack = new DisposableStack();
    let id: string | undefined;
    let sandbox: string | undefined;
    let last: 'whole' | 'end' = 'whole';
    const record = (status: number, stage: 'start' | 'end' | 'whole', error?: AppError): void => {
      const durationMs = monoMs() - startedMs;
      if (stage !== 'start') counters.record(id ?? 'none', status, durationMs);
      const operation = id ?? null;
      audit.write(auditLine({ ...asked, caller, operation, sandbox, stage, error, status, durationMs }));
    };
    try {
      const { route, raw, query } = this.#find(request.incoming);
      ({ id } = route);
      sandbox = raw['id'];
      stack.defer(counters.streams.take(caller.owner));
      const conversation = await this.#handle(route, { raw, query, caller });
      const socket = await route.upgrader.accept(request);
      record(101, 'start');
      last = 'end';
      await conversation(socket);
      await socket.closed;
      record(101, last);
    } catch (error) {
      const failure = asAppError(error);
      record(failure.status, last, failure);
      if (failure.code === 'internal') log.error('upgrade.fault', { error: failure.cause });
      refuseSocket(request, failure);
    }
  }

  async #handle(
    { id, operation }: Route,
    asked: { readonly raw: Texts; readonly query: Texts; readonly caller: Caller },
  ): Promise<Conversation> {
    const { caller } = asked;
    checkScope(operation, caller);
    const params = parseParams(operation, asked.raw);
    const query = parsePart(operation.query, queryOf(operation, asked.query));
    const checkOwner = (): void => this.#options.checkOwner(caller, params);
    checkOwner();
    // As in the router: picking by a variable id loses which handler belongs to which operation.
    const handler = this.#options.handlers[id] as SocketHandler<Operation>;
    return await handler({ params, query, caller, checkOwner } as unknown as SocketCall<Operation>);
  }

  #find(incoming: IncomingMessage) {
    const { path, query } = targetOf(incoming);
    for (const { value: route, params: raw } of this.#routes.find(path)) return { route, raw, query };
    throw new AppError('not_found', 'No WebSocket is served at this address');
  }
}
