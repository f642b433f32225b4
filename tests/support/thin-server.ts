/** The HTTP layer in this process, on a free port and a socket in a directory of its own. */
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { type IncomingMessage, type RequestOptions, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { limits } from '@squash/contract/limits';
import { systemClock } from '@squash/base/clock';
import { type HttpConfig, type HttpService, startHttp } from '../../host/src/api/serve-http.ts';
import { AuditLog } from '../../host/src/audit/audit-log.ts';
import { keptLog } from './kept-log.ts';
import type { Engine } from '../../host/src/engine/engine.ts';
import { thinEgress, thinGroups, thinWebhooks } from './thin-engine.ts';

export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly json: unknown;
}

export class ThinServer implements AsyncDisposable {
  readonly directory: string;
  readonly service: HttpService;
  readonly #audit: AuditLog;
  readonly #lines: readonly string[];

  private constructor(
    directory: string,
    { service, audit }: { readonly service: HttpService; readonly audit: AuditLog },
    lines: readonly string[],
  ) {
    this.directory = directory;
    this.service = service;
    this.#audit = audit;
    this.#lines = lines;
  }

  static async start(engine: Engine, config: Partial<HttpConfig> = {}): Promise<ThinServer> {
    const directory = await mkdtemp(join(tmpdir(), 'squash-http-'));
    try {
      return await ThinServer.#startIn(directory, engine, config);
    } catch (error) {
      await rm(directory, { recursive: true });
      throw error;
    }
  }

  static async #startIn(directory: string, engine: Engine, config: Partial<HttpConfig>): Promise<ThinServer> {
    await mkdir(join(directory, 'run'));
    await mkdir(join(directory, 'tmp'));
    const { log, lines } = keptLog('warn');
    const audit = new AuditLog({ directory: join(directory, 'audit'), clock: systemClock, log });
    const service = await startHttp({
      engine,
      log,
      config: {
        backend: 'chroot',
        dataDir: directory,
        runDir: join(directory, 'run'),
        listen: { host: '127.0.0.1', port: 0 },
        authToken: undefined,
        allowedHosts: [],
        isStrictContentType: false,
        sandboxesMax: 100,
        previewDomain: undefined,
        previewTlsPort: undefined,
        ssh: undefined,
        ...config,
      },
      // Who asks is the test's own process.
      owners: { peerOf: () => 'own', uidOf: () => undefined },
      audit,
      egress: thinEgress,
      webhooks: thinWebhooks,
      groups: thinGroups,
      info: { version: '0.0.0', started: '2026-01-01T00:00:00.000Z', host: async () => [], config: [] },
    });
    return new ThinServer(directory, { service, audit }, lines);
  }

  get port(): number {
    return this.service.listen?.port ?? 0;
  }

  /** What the daemon logged at warn and above. */
  get logged(): string {
    return this.#lines.join('');
  }

  async send(options: RequestOptions, body?: string | Buffer): Promise<RawAnswer> {
    const response = await this.open(options, body);
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString('utf8');
    return { status: response.statusCode ?? 0, headers: response.headers, text, json: parsed(text) };
  }

  /** The answer's head; the body is the caller's to read. */
  async open(options: RequestOptions, body?: string | Buffer): Promise<IncomingMessage> {
    const target = options.socketPath === undefined ? { host: '127.0.0.1', port: this.port } : {};
    const sent = request({ agent: false, ...target, ...options });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return response;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service.close();
    this.#audit[Symbol.dispose]();
    await rm(this.directory, { recursive: true, force: true });
  }
}

export const overJsonLimit = limits.jsonBodyBytesMax + 1;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Some answers have no body or are no JSON.
    return undefined;
  }
}
