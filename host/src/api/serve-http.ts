/**
 * Puts the API on the air: the handlers over the engine, behind the gate, on TCP and on the Unix socket.
 */
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { DaemonInfo } from '@squash/contract/daemon';
import { AppError } from '@squash/contract/errors';
import { sandboxIdSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { operations } from '@squash/contract/operations/table';
import { systemClock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { Secret } from '@squash/base/secret';
import type { ConnectionOwners } from '../http/connection-owner.ts';
import { HttpCounters } from '../http/counters.ts';
import { Gate } from '../http/gate.ts';
import { type UpgradeRequest, WebSocketUpgrader } from '../http/message-socket.ts';
import { asAppError } from '../http/problem.ts';
import { buildRouter } from '../http/router.ts';
import { HttpServer, refuseUpgrade } from '../http/server.ts';
import type { Engine } from '../engine/engine.ts';
import type { ConstantInfo } from './daemon.ts';
import { type EgressParts, handlers } from './handlers.ts';
import { serveExecStream } from './exec-stream.ts';

/** The part of the configuration that the API reads. `Config` fits. */
export interface HttpConfig {
  readonly dataDir: string;
  readonly runDir: string;
  readonly listen: { readonly host: string; readonly port: number | undefined };
  readonly authToken: Secret | undefined;
  readonly allowedHosts: readonly string[];
  readonly isStrictContentType: boolean;
  readonly sandboxesMax: number;
}

/** Facts that only the composition root knows; the rest of `daemon.info` is known here. */
type DaemonFacts = Pick<DaemonInfo, 'version' | 'started' | 'host' | 'config'>;

export interface HttpOptions {
  readonly engine: Engine;
  readonly config: HttpConfig;
  readonly info: DaemonFacts;
  /** Whose a connection over TCP is. */
  readonly owners: Pick<ConnectionOwners, 'peerOf'>;
  readonly egress: EgressParts;
  readonly log: Log;
  /** Aborting it is the same as `close()`. */
  readonly signal?: AbortSignal;
}

export interface HttpService extends AsyncDisposable {
  /** Where TCP listens, with the port the kernel chose; null where it does not. */
  readonly listen: { readonly host: string; readonly port: number } | null;
  readonly socketPath: string;
  /** Requests and WebSockets in progress. */
  readonly active: number;
  /**
   * Stops accepting, ends streams that only follow, lets requests and commands' streams finish for up to
   * `limits.shutdownMs`, then cuts what is left. No command is ended by it. Idempotent.
   */
  close(): Promise<void>;
}

/** For the last message of each stream; a client that does not read it in this time does not read. */
const farewellMs = 1_000;

/** @throws config_invalid where it can't listen, data_locked where another daemon answers on the socket */
export async function startHttp(options: HttpOptions): Promise<HttpService> {
  const { config, signal } = options;
  const parts = assemble(options);
  const { server, stopping, cutting } = parts;
  const socketPath = join(config.runDir, 'api.sock');
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= shutDown());
  try {
    await server.listenUnix(socketPath);
    const { host, port } = config.listen;
    const listen = port === undefined ? null : await server.listenTcp(host, port);
    parts.bound.listen = listen;
    signal?.addEventListener('abort', () => void close(), { once: true });
    if (signal?.aborted === true) void close();
    return {
      listen,
      socketPath,
      get active() {
        return parts.counters.active;
      },
      close,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    cutting.abort();
    await server.close(cutting.signal);
    throw error;
  }

  async function shutDown(): Promise<void> {
    stopping.abort();
    const cut = new AbortController();
    const telling = setTimeout(() => cutting.abort(), limits.shutdownMs);
    // Clients of commands that go on are told why their stream ends before it is cut.
    const timer = setTimeout(() => cut.abort(), limits.shutdownMs + farewellMs);
    await server.close(cut.signal);
    clearTimeout(telling);
    clearTimeout(timer);
  }
}

function assemble({ engine, config, info, owners, egress, log }: HttpOptions) {
  const counters = new HttpCounters();
  const stopping = new AbortController();
  const cutting = new AbortController();
  const bound: { listen: DaemonInfo['listen'] } = { listen: null };
  const router = buildRouter({
    handlers: handlers({
      engine,
      counters,
      temporaryDir: join(config.dataDir, 'tmp'),
      info: () => daemonInfo(config, info, bound.listen),
      egress,
    }),
    isStrictContentType: config.isStrictContentType,
    sandboxesMax: config.sandboxesMax,
    counters,
    log,
    stopping: stopping.signal,
    monoMs: () => systemClock.monoMs(),
  });
  const upgrader = new WebSocketUpgrader(operations['sandbox.exec_stream'].webSocket);
  const server = new HttpServer({
    gate: new Gate(config),
    // With a token nobody needs to know.
    peerOf: (socket) => (config.authToken === undefined ? owners.peerOf(socket) : 'unknown'),
    fetch: (request, bindings) => router.fetch(request, bindings),
    upgrade: (incoming, socket, head) =>
      upgrade({ incoming, socket, head }, { engine, log, counters, upgrader, cutting: cutting.signal }),
    counters,
    log,
  });
  return { server, stopping, cutting, bound, counters };
}

interface UpgradeParts {
  readonly engine: Engine;
  readonly log: Log;
  readonly counters: HttpCounters;
  readonly upgrader: WebSocketUpgrader;
  readonly cutting: AbortSignal;
}

/** What can be refused is refused by HTTP status, before the handshake. */
async function upgrade(request: UpgradeRequest, parts: UpgradeParts): Promise<void> {
  const { engine, log, counters, upgrader, cutting } = parts;
  const startedMs = systemClock.monoMs();
  const record = (status: number): void =>
    counters.record(operations['sandbox.exec_stream'].id, status, systemClock.monoMs() - startedMs);
  try {
    if (counters.streams >= limits.streamsMax) {
      throw new AppError(
        'stream_limit',
        `${limits.streamsMax} streams are open: close one or try again later`,
      );
    }
    const id = engine.sandboxes.get(sandboxIdOf(request.incoming)).id;
    const socket = await upgrader.accept(request);
    counters.streams += 1;
    try {
      await serveExecStream(socket, {
        processes: engine.processes,
        id: sandboxIdSchema.parse(id),
        log,
        cutting,
      });
      await socket.closed;
    } finally {
      counters.streams -= 1;
    }
    record(101);
  } catch (error) {
    const failure = asAppError(error);
    record(failure.status);
    if (failure.code === 'internal') log.error('upgrade.fault', { error: failure.cause });
    refuseUpgrade(request.socket, failure, request.incoming.url ?? '');
  }
}

function sandboxIdOf(incoming: IncomingMessage) {
  const [path = ''] = (incoming.url ?? '').split('?', 1);
  const [, id = ''] = /^\/v1\/sandboxes\/([^/]+)\/exec\/?$/.exec(path) ?? [];
  if (id === '') throw new AppError('not_found', 'No WebSocket is served at this address');
  const parsed = sandboxIdSchema.safeParse(decoded(id));
  if (parsed.success) return parsed.data;
  throw new AppError('sandbox_not_found', `Cannot find sandbox "${decoded(id).slice(0, 200)}"`);
}

/** As the router decodes parameters: what is no encoding stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function daemonInfo(config: HttpConfig, info: DaemonFacts, listen: DaemonInfo['listen']): ConstantInfo {
  return {
    version: info.version,
    api: 1,
    pid: process.pid,
    started: info.started,
    node: process.version,
    backend: 'chroot',
    data_dir: config.dataDir,
    socket: join(config.runDir, 'api.sock'),
    listen,
    auth: config.authToken !== undefined,
    host: info.host,
    config: info.config,
  };
}
