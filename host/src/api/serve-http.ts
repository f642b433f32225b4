/**
 * Puts the API on the air: the handlers over the engine, behind the gate, on TCP and on the Unix socket.
 */
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { markApiPort } from '@squash/base/api-ports';
import type { Backend } from '@squash/contract/backend';
import type { DaemonInfo } from '@squash/contract/daemon';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { systemClock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { Secret } from '@squash/base/secret';
import type { Audit } from '../http/audit.ts';
import { type Caller, NotSeen, sees } from '../http/caller.ts';
import type { ConnectionOwners } from '../http/connection-owner.ts';
import { HttpCounters } from '../http/counters.ts';
import { Gate } from '../http/gate.ts';
import { buildRouter } from '../http/router.ts';
import { HttpServer } from '../http/server.ts';
import { Sockets } from '../http/sockets.ts';
import { Tickets } from '../http/tickets.ts';
import type { Engine } from '../engine/engine.ts';
import type { AuditParts } from './audit.ts';
import { PreviewCertificate } from '../preview/certificate.ts';
import { PreviewLinks } from '../preview/preview-links.ts';
import { PreviewTokens } from '../preview/preview-token.ts';
import { Previews } from '../preview/previews.ts';
import type { ConstantInfo } from './daemon.ts';
import { keyRing } from './key-ring.ts';
import type { Groups } from './groups.ts';
import { type EgressParts, handlers, socketHandlers } from './handlers.ts';
import type { WebhookParts } from './webhooks.ts';

/** The part of the configuration that the API reads. `Config` fits. */
export interface HttpConfig {
  readonly backend: Backend;
  readonly dataDir: string;
  readonly runDir: string;
  readonly listen: { readonly host: string; readonly port: number | undefined };
  readonly authToken: Secret | undefined;
  readonly allowedHosts: readonly string[];
  readonly isStrictContentType: boolean;
  readonly sandboxesMax: number;
  readonly previewDomain: string | undefined;
  readonly previewTlsPort: number | undefined;
  readonly ssh: { readonly host: string; readonly port: number } | undefined;
}

/** Facts that only the composition root knows; the rest of `daemon.info` is known here. */
type DaemonFacts = Pick<DaemonInfo, 'version' | 'started' | 'config'> & {
  readonly host: () => Promise<DaemonInfo['host']>;
};

export interface HttpOptions {
  readonly engine: Engine;
  readonly config: HttpConfig;
  readonly info: DaemonFacts;
  readonly gateway?: { readonly info: DaemonInfo['ssh'] } | undefined;
  /** Whose a connection over TCP is. */
  readonly owners: Pick<ConnectionOwners, 'peerOf' | 'uidOf'>;
  readonly audit: Audit & AuditParts;
  readonly egress: EgressParts;
  readonly webhooks: WebhookParts;
  readonly groups: Groups;
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
  /** … so far. */
  readonly begun: number;
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
  const parts = assemble(options, await PreviewTokens.open(config.dataDir));
  const { server, stopping, cutting } = parts;
  const socketPath = join(config.runDir, 'api.sock');
  const certificates = new DisposableStack();
  const marks = new DisposableStack();
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= shutDown());
  try {
    await server.listenUnix(socketPath);
    if (config.ssh !== undefined) await server.listenGateway(gatewaySocket(config.runDir));
    const { host, port } = config.listen;
    // Before anybody can connect, where the port is known.
    if (port !== undefined && port !== 0) marks.use(await markApiPort(port));
    const listen = port === undefined ? null : await server.listenTcp(host, port);
    if (listen !== null && port === 0) marks.use(await markApiPort(listen.port));
    parts.bound.listen = listen;
    parts.bound.tlsPort = await listenSecured(server, options, certificates);
    signal?.addEventListener('abort', () => void close(), { once: true });
    if (signal?.aborted === true) void close();
    return {
      listen,
      socketPath,
      get active() {
        return parts.counters.active;
      },
      get begun() {
        return parts.counters.begun;
      },
      close,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    certificates.dispose();
    cutting.abort();
    await server.close(cutting.signal);
    marks.dispose();
    throw error;
  }

  async function shutDown(): Promise<void> {
    certificates.dispose();
    stopping.abort();
    const cut = new AbortController();
    const telling = setTimeout(() => cutting.abort(), limits.shutdownMs);
    // Clients of commands that go on are told why their stream ends before it is cut.
    const timer = setTimeout(() => cut.abort(), limits.shutdownMs + farewellMs);
    await server.close(cut.signal);
    marks.dispose();
    clearTimeout(telling);
    clearTimeout(timer);
  }
}

/** In a directory of its own, which is all that the gateway gets. */
export function gatewaySocket(runDir: string): string {
  const directory = join(runDir, 'ssh');
  mkdirSync(directory, { recursive: true, mode: 0o711 });
  chmodSync(directory, 0o711);
  return join(directory, 'api.sock');
}

/** For previews alone, with the operator's certificate. @returns its port */
async function listenSecured(
  server: HttpServer,
  { config, log }: HttpOptions,
  certificates: DisposableStack,
): Promise<number | undefined> {
  if (config.previewTlsPort === undefined) return undefined;
  const certificate = certificates.use(new PreviewCertificate(config.dataDir, log));
  const { port, renew } = await server.listenTls(config.listen.host, config.previewTlsPort, certificate.pair);
  certificate.watch(renew);
  return port;
}

function assemble(options: HttpOptions, tokens: PreviewTokens) {
  const { engine, config, owners, egress, audit, webhooks, groups, log } = options;
  const counters = new HttpCounters();
  const stopping = new AbortController();
  const cutting = new AbortController();
  const bound: { listen: DaemonInfo['listen']; tlsPort: number | undefined } = {
    listen: null,
    tlsPort: undefined,
  };
  const ring = keyRing(engine);
  const monoMs = (): number => systemClock.monoMs();
  const tickets = new Tickets(monoMs, (key) => ring.holds(key));
  const checkOwner = (caller: Caller, params: unknown): void => {
    const id = sandboxOf(params);
    if (id === undefined || caller.owner === null || sees(caller, engine.sandboxes.ownerOf(id))) return;
    throw new NotSeen('sandbox_not_found', `Cannot find sandbox "${id}"`);
  };
  const router = buildRouter({
    handlers: handlers({
      engine,
      counters,
      temporaryDir: join(config.dataDir, 'tmp'),
      info: () => daemonInfo(options, bound.listen),
      host: options.info.host,
      egress,
      audit,
      tickets,
      webhooks,
      groups,
      links: new PreviewLinks(tokens, {
        domain: config.previewDomain,
        tcpPort: () => bound.listen?.port,
        tlsPort: () => bound.tlsPort,
      }),
    }),
    isStrictContentType: config.isStrictContentType,
    sandboxesMax: config.sandboxesMax,
    counters,
    audit,
    log,
    stopping: stopping.signal,
    monoMs,
    checkOwner,
  });
  const sockets = new Sockets({
    handlers: socketHandlers(engine, { log, cutting: cutting.signal, stopping: stopping.signal }),
    checkOwner,
    counters,
    audit,
    log,
    monoMs,
  });
  const gate = new Gate({ ...config, keys: ring, tickets });
  const server = new HttpServer({
    gate,
    others: previewsOf(options, { gate, tokens, stopping: stopping.signal }),
    // With a token nobody needs to know.
    peerOf: (socket) => (config.authToken === undefined ? owners.peerOf(socket) : 'unknown'),
    uidOf: (socket) => owners.uidOf(socket),
    holdsKey: (key) => ring.holds(key),
    answer: router,
    upgrade: (request, passed) => sockets.upgrade(request, passed),
    counters,
    audit,
    log,
  });
  return { server, stopping, cutting, bound, counters };
}

function previewsOf(
  { engine, config, audit, log }: HttpOptions,
  parts: { readonly gate: Gate; readonly tokens: PreviewTokens; readonly stopping: AbortSignal },
): Previews {
  const { gate } = parts;
  return new Previews({
    ...parts,
    ports: engine.ports,
    domain: config.previewDomain,
    callerOf: ({ transport, peer }, { headers }) =>
      gate.senderOf({ transport: transport === 'unix' ? transport : 'tcp', peer, headers }),
    isCredential: (authorization) => gate.isCredential(authorization),
    holdsKey: (key) => keyRing(engine).holds(key),
    audit,
    log,
  });
}

/** In all operations `{id}` is a sandbox. */
function sandboxOf(params: unknown): SandboxId | undefined {
  return typeof params === 'object' && params !== null && 'id' in params
    ? (params.id as SandboxId)
    : undefined;
}

function daemonInfo({ config, info, gateway }: HttpOptions, listen: DaemonInfo['listen']): ConstantInfo {
  return {
    version: info.version,
    api: 1,
    pid: process.pid,
    started: info.started,
    node: process.version,
    backend: config.backend,
    data_dir: config.dataDir,
    socket: join(config.runDir, 'api.sock'),
    listen,
    ssh: gateway?.info ?? null,
    auth: config.authToken !== undefined,
    config: info.config,
  };
}
