/**
 * The interceptor between real clients and a real server, all on loopback, with everything else as it is in the egress
 * process: real authority, real certificates, real policy, real `secrets.json`.
 *
 * Clients connect to `port` and believe it is `api.test:443`; the server (`origin`) has a certificate of an authority of its own.
 */
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createSecureServer, type Http2SecureServer } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect as connectTcp, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { policySchema } from '@squash/contract/policy';
import { systemClock } from '@squash/base/clock';
import { createLog } from '@squash/base/log';
import { HttpInterceptor } from '../../egress/src/intercept/interceptor.ts';
import { upstreamRoots } from '../../egress/src/intercept/upstream-socket.ts';
import { compilePolicy } from '@squash/policy/compile';
import type { Policy, Verdict } from '@squash/policy/policy';
import { type Decision, DialRefused, type InterceptedConnection } from '../../egress/src/ports.ts';
import { FileSecretStore } from '../../egress/src/secrets/secret-store.ts';
import { leafCertificate } from '@squash/installation/certificate';
import { loadInstallationCa } from '@squash/installation/installation-ca';
import { LeafCache } from '../../egress/src/intercept/leaf-cache.ts';

export const host = 'api.test';
export const key = {
  placeholder: 'sk-placeholder-0123456789',
  value: 'sk-real-"value"/with+signs-9876543210',
};
export const oneSecret = { secrets: { KEY: { ...key, allowed_hosts: [host] } } };
/** Of another host: its placeholder has no business at this one. */
export const foreignSecret = { secrets: { KEY: { ...key, allowed_hosts: ['elsewhere.test'] } } };
export const everySurface = {
  secrets: { KEY: { ...key, allowed_hosts: [host], surfaces: ['headers', 'query', 'path', 'body'] } },
};

type Handler = (request: IncomingMessage, response: ServerResponse) => void;
export type Origin = 'h2' | 'http/1.1' | 'plain' | 'own';

export interface InterceptedOptions {
  readonly origin?: Origin;
  readonly handler?: Handler;
  /** With origin `own` or `plain`: a server that is already there, by its port. */
  readonly originPort?: number;
  readonly secrets?: unknown;
  readonly policy?: unknown;
  /** Without it whatever is asked is allowed. */
  readonly ask?: InterceptedConnection['ask'];
  readonly refusal?: Verdict;
  readonly dialRefusal?: Verdict;
  /** Nobody answers: dials wait in `dialling` until they are given up. */
  readonly isVoid?: boolean;
  /** Not the test authority's: the server can not be verified. */
  readonly isUntrusted?: boolean;
  /** As with `SQUASH_PROXY_HTTPS=0`. */
  readonly isTlsUnread?: boolean;
  readonly dialledHost?: string;
  readonly serverName?: string | undefined;
}

export class Intercepted implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'squash-intercept-'));
  readonly decisions: Decision[] = [];
  /** What `intercept` has been called for and has not resolved. */
  readonly running = new Set<Promise<void>>();
  readonly dialled: Socket[] = [];
  readonly dialling = new Set<AbortSignal>();
  readonly caPath = join(this.directory, 'proxy-ca', 'ca.pem');
  readonly secretsPath = join(this.directory, 'secrets.json');
  ca = '';
  port = 0;
  originPort = 0;
  originServer: Http2SecureServer | Server | undefined;
  readonly #options: InterceptedOptions;
  #store: FileSecretStore | undefined;
  #front: Server | undefined;
  #policy: Policy;
  readonly #reviews = new Set<() => boolean>();
  readonly #accepted = new Set<Socket>();

  private constructor(options: InterceptedOptions) {
    this.#options = options;
    this.#policy = compiled(options.policy ?? { allow: ['*'] });
  }

  static async start(options: InterceptedOptions = {}): Promise<Intercepted> {
    const made = new Intercepted(options);
    await made.#start();
    return made;
  }

  get isPlain(): boolean {
    return this.#options.origin === 'plain';
  }

  /** A TLS client of the interceptor. Plain TCP where the origin is plain. */
  async connect(protocols: readonly string[] = ['http/1.1']): Promise<Socket | TLSSocket> {
    const raw = connectTcp(this.port, '127.0.0.1');
    await once(raw, 'connect');
    if (this.isPlain) return raw;
    const socket = connectTls({ socket: raw, servername: host, ca: this.ca, ALPNProtocols: [...protocols] });
    try {
      await once(socket, 'secureConnect');
    } catch (error) {
      raw.destroy();
      throw error;
    }
    return socket;
  }

  /** The server answers with these bytes from now on, whatever they are. */
  sayRaw(words: string): void {
    this.originServer?.removeAllListeners('request');
    this.originServer?.on('request', (_request, response: ServerResponse) => {
      response.socket?.end(Buffer.from(words, 'latin1'));
    });
  }

  /** Other rules hold from now on. @returns on how many connections something was ended */
  change({ policy, secrets }: { readonly policy?: unknown; readonly secrets?: unknown }): number {
    if (policy !== undefined) this.#policy = compiled(policy);
    if (secrets !== undefined) writeFileSync(this.secretsPath, JSON.stringify(secrets));
    return [...this.#reviews].filter((review) => review()).length;
  }

  /** Ends the programs' connections, as is done where a relay says that they have ended. */
  cut(): void {
    for (const socket of this.#accepted) socket.destroy();
  }

  /** Sends text and gives what comes back until the other side ends, at least the first piece. */
  async exchange(text: string | readonly string[]): Promise<string> {
    const socket = await this.connect();
    let answer = '';
    socket.setEncoding('latin1').on('data', (piece: string) => {
      answer += piece;
      // Servers may take an end before the answer for giving the request up.
      socket.end();
    });
    socket.on('error', () => {});
    for (const piece of typeof text === 'string' ? [text] : text) socket.write(piece, 'latin1');
    if (!socket.closed) await once(socket, 'close').catch(() => {});
    return answer;
  }

  /** The decision on the n-th request, once it is there. */
  async decision(at: number): Promise<Decision> {
    const deadlineMs = performance.now() + 10_000;
    for (;;) {
      const found = this.decisions[at];
      if (found !== undefined) return found;
      if (performance.now() > deadlineMs)
        throw new Error(`no decision ${at}: ${JSON.stringify(this.decisions)}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await Promise.all(this.running);
    this.#front?.close();
    const { originServer } = this;
    if (originServer !== undefined) {
      if ('closeAllConnections' in originServer)
        (originServer as { closeAllConnections(): void }).closeAllConnections();
      for (const socket of this.dialled) socket.destroy();
      originServer.close();
    }
    await this.#store?.[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true });
  }

  async #start(): Promise<void> {
    const { options, originCa } = { options: this.#options, originCa: join(this.directory, 'origin-ca') };
    writeFileSync(this.secretsPath, JSON.stringify(options.secrets ?? { secrets: {} }), { mode: 0o600 });
    const ca = await loadInstallationCa(join(this.directory, 'proxy-ca'), systemClock);
    this.ca = ca.certificate;
    await this.#startOrigin(originCa);
    const log = createLog({
      level: 'error',
      format: 'json',
      write: (line) => process.stderr.write(line),
      nowMs: () => systemClock.wallMs(),
      rate: { linesMax: 10, windowMs: 1_000, keysMax: 10 },
    });
    const roots = upstreamRoots(options.isUntrusted === true ? undefined : join(originCa, 'ca.pem'));
    this.#store = new FileSecretStore(this.secretsPath, log, { roots, clock: systemClock });
    const interceptor = new HttpInterceptor({
      leaves: new LeafCache(ca, systemClock),
      roots,
      clock: systemClock,
    });
    const connection = this.#connection(this.#store);
    this.#front = createServer({ allowHalfOpen: true }, (socket) => {
      this.#accepted.add(socket);
      const work = interceptor.intercept(socket, connection).finally(() => {
        this.running.delete(work);
        this.#accepted.delete(socket);
      });
      this.running.add(work);
    }).listen(0, '127.0.0.1');
    await once(this.#front, 'listening');
    this.port = (this.#front.address() as AddressInfo).port;
  }

  #connection(store: FileSecretStore): InterceptedConnection {
    const { refusal, dialRefusal, isVoid = false, dialledHost = host } = this.#options;
    const policy = (): Policy => this.#policy;
    const serverName = 'serverName' in this.#options ? this.#options.serverName : host;
    return {
      sandbox: 'test',
      destination: { host: dialledHost, address: undefined, port: this.isPlain ? 80 : 443 },
      protocol: this.isPlain ? 'http' : 'tls',
      isTlsUnread: this.#options.isTlsUnread === true,
      serverName: this.isPlain ? undefined : serverName,
      refusal,
      get policy() {
        return policy();
      },
      secrets: store.subset('all'),
      dial: async (signal) => {
        if (isVoid) await this.#dialVoid(signal);
        if (dialRefusal !== undefined) throw new DialRefused(dialRefusal);
        const socket = connectTcp(this.originPort, '127.0.0.1');
        this.dialled.push(socket);
        await once(socket, 'connect');
        return socket;
      },
      record: (decision) => void this.decisions.push(decision),
      ask: this.#options.ask ?? (() => Promise.resolve(undefined)),
      onReview: (review) => void this.#reviews.add(review),
    };
  }

  async #dialVoid(signal: AbortSignal): Promise<void> {
    this.dialling.add(signal);
    try {
      if (!signal.aborted) await once(signal, 'abort');
    } finally {
      this.dialling.delete(signal);
    }
    signal.throwIfAborted();
  }

  async #startOrigin(directory: string): Promise<void> {
    const { origin = 'http/1.1', handler = echo, originPort } = this.#options;
    const ca = await loadInstallationCa(directory, systemClock);
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const nowMs = systemClock.wallMs();
    const validity = { fromMs: nowMs - 1_000, untilMs: nowMs + 86_400_000 };
    const cert = leafCertificate(ca, { host, publicKey: pair.publicKey, validity });
    const keyPem = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    this.originPort = originPort ?? 0;
    if (originPort !== undefined) return;
    const server = makeServer(origin, { key: keyPem, cert }, handler);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.originPort = (server.address() as AddressInfo).port;
    this.originServer = server;
  }
}

function compiled(policy: unknown): Policy {
  return compilePolicy({ policy: policySchema.parse(policy), ceiling: undefined, allowRanges: [] });
}

function makeServer(
  origin: Origin,
  tls: { key: string; cert: string },
  handler: Handler,
): Server | Http2SecureServer {
  if (origin === 'plain') return createHttpServer(handler);
  if (origin === 'http/1.1') return createHttpsServer(tls, handler);
  return createSecureServer({ ...tls, allowHTTP1: true }, handler as never);
}

/** Says what arrived: method, target, headers in order, trailers, body. */
export const echo: Handler = (request, response) => {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => {
    const body = Buffer.concat(pieces);
    const text = JSON.stringify({
      version: request.httpVersion,
      method: request.method,
      url: request.url,
      headers: request.rawHeaders,
      trailers: request.rawTrailers,
      // In a form that the scrubbing of answers does not know.
      seen: Buffer.from(body.toString('latin1').split('').toReversed().join('')).toString('hex'),
      values: Object.values(request.headers).map((value) => Buffer.from(String(value)).toString('hex')),
    });
    response.setHeader('content-type', 'application/json');
    response.end(text);
  });
};

export interface Echo {
  readonly version: string;
  readonly method: string;
  readonly url: string;
  readonly headers: readonly string[];
  readonly trailers: readonly string[];
  readonly seen: string;
  readonly values: readonly string[];
}

/** The body of an echo as the server got it. */
export function bodyOf({ seen }: Echo): string {
  return Buffer.from(seen, 'hex').toString().split('').toReversed().join('');
}

/** Did the server get a header that contains this? */
export function gotHeader({ values }: Echo, text: string): boolean {
  return values.some((value) => Buffer.from(value, 'hex').toString().includes(text));
}
