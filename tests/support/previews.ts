/** A daemon with a sandbox in which programs listen on ports, and requests to them as browsers and attackers send them. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { rm } from 'node:fs/promises';
import { packModule, repository } from './base-layer.ts';
import { clientModules } from './clients-layer.ts';
import { type DaemonOptions, TestDaemon } from './daemon.ts';
import { waitFor } from './wait.ts';

export interface Seen {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The parsed body; undefined where it is no JSON. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
}

export interface Ask {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer;
  /** Of the preview; none is `localhost`. */
  readonly domain?: string;
}

const programs = join(repository, 'tests/support/ports');

export class PreviewScene implements AsyncDisposable {
  readonly daemon: TestDaemon;

  private constructor(daemon: TestDaemon) {
    this.daemon = daemon;
  }

  /** With sandboxes of these ids, on Debian with Python and Node. */
  static async start(ids: readonly string[], options: DaemonOptions = {}): Promise<PreviewScene> {
    const module = join(tmpdir(), `squash-ports-${process.pid}.squashfs`);
    await packModule(module, {
      'opt/server.mjs': await readFile(join(programs, 'server.mjs')),
      'opt/dev-server.mjs': await readFile(join(programs, 'dev-server.mjs')),
      'opt/hostile.mjs': await readFile(join(programs, 'hostile.mjs')),
    });
    const modules = { ...(await clientModules()), '200-ports-test': module };
    const daemon = await TestDaemon.start({ ...options, modules: { ...modules, ...options.modules } });
    await rm(module);
    const scene = new PreviewScene(daemon);
    const layers = ['000-base-debian', '100-clients-test', '200-ports-test'];
    for (const id of ids) await daemon.call('POST', '/cgi-bin/api/sandboxes', { id, layers });
    return scene;
  }

  /** Starts a program in the background; resolves when something listens on the port. */
  async run(id: string, cmd: string, port: number): Promise<void> {
    await this.daemon.call('POST', `/cgi-bin/api/sandboxes/${id}/exec-bg`, { cmd });
    await waitFor(`port ${port} of ${id}`, async () => {
      const hex = port.toString(16).toUpperCase().padStart(4, '0');
      const found = await this.exec(
        id,
        `cat /proc/net/tcp /proc/net/tcp6 | grep -c ':${hex} .* 0A ' || true`,
      );
      return Number(found) > 0;
    });
  }

  async serve(id: string, port: number): Promise<void> {
    await this.run(id, `node /opt/server.mjs ${port}`, port);
  }

  /** What the command printed. */
  async exec(id: string, cmd: string): Promise<string> {
    const answer = (await this.daemon.call('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd })) as {
      readonly stdout: string;
    };
    return answer.stdout.trim();
  }

  host(name: string, domain = 'localhost'): string {
    return `${name}.${domain}:${this.daemon.port}`;
  }

  /** In host names. */
  labelOf(id: string): string {
    const database = new DatabaseSync(join(this.daemon.dataDir, 'squash.db'), { readOnly: true });
    const row = database.prepare('SELECT host_label FROM sandboxes WHERE id = ?').get(id);
    database.close();
    return String(row?.['host_label']);
  }

  /** The head of an answer; its body is the caller's. @param name `<port>-<label>` */
  async open(
    name: string,
    { method, path = '/', headers, body, domain }: Ask = {},
  ): Promise<IncomingMessage> {
    const sent = request({
      host: '127.0.0.1',
      port: this.daemon.port,
      agent: false,
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      path,
      headers: { host: this.host(name, domain), ...headers },
    });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return response;
  }

  async ask(name: string, ask: Ask = {}): Promise<Seen> {
    const response = await this.open(name, ask);
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    return { status: response.statusCode ?? 0, headers: response.headers, text, json: parsed(text) };
  }

  /** A connection to the daemon, for bytes as they are. */
  async dial(): Promise<Socket> {
    const socket = connect({ host: '127.0.0.1', port: this.daemon.port, allowHalfOpen: true });
    await once(socket, 'connect');
    return socket;
  }

  /** Sends these bytes and returns everything that comes until the daemon closes, or `ms` have passed. */
  async raw(text: string, ms = 3_000): Promise<string> {
    const socket = await this.dial();
    let answer = '';
    socket.setEncoding('latin1').on('data', (part: string) => {
      answer += part;
    });
    socket.on('error', () => {
      // A reset is an end, too.
    });
    socket.write(text, 'latin1');
    const timer = setTimeout(() => socket.destroy(), ms);
    await new Promise<void>((resolve) => {
      socket.once('end', resolve).once('close', () => resolve());
    });
    clearTimeout(timer);
    socket.destroy();
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A page.
    return undefined;
  }
}
