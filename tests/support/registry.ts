/**
 * Debian's docker-registry for a test, with a user and a password, and before it a proxy that carries bytes until it is told to do
 * otherwise. `docker-registry` takes a moment to start, so one serves a whole file.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createPort } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitFor } from './wait.ts';

/** What is done with one answer. `cut`: half of a large one comes; `wrong`: one byte is another; `away`: another host has it. */
export type RegistryFault = 'none' | 'cut' | 'wrong' | 'away';

const user = 'squash';
const password = 'geheim';
/** By `htpasswd -Bbn`. */
const entry = `${user}:$2y$05$vDLSJ050JVOmVTUPvdSLa.pCKa8pxYOjiRTpijXD/9eZUXJK9TxaG`;

export class TestRegistry implements AsyncDisposable {
  readonly directory: string;
  readonly credentials = `${user}:${password}`;
  readonly seen: { readonly path: string; readonly range: string | undefined }[] = [];
  fault: (asked: IncomingMessage) => RegistryFault = () => 'none';
  /** The logins that the other host was shown. */
  readonly shownAway: (string | undefined)[] = [];
  readonly #child: ChildProcess;
  readonly #port: number;
  readonly #proxy: Server;
  /** A host of its own by its port, with what the registry has. */
  readonly #away: Server;

  private constructor(parts: {
    directory: string;
    child: ChildProcess;
    port: number;
    proxy: Server;
    away: Server;
  }) {
    this.directory = parts.directory;
    this.#child = parts.child;
    this.#port = parts.port;
    this.#proxy = parts.proxy;
    this.#away = parts.away;
    this.#proxy.on('request', (asked, answer) => {
      this.seen.push({ path: asked.url ?? '', range: asked.headers.range });
      const fault = this.fault(asked);
      if (fault === 'away') answer.writeHead(307, { location: `http://${this.awayHost}${asked.url}` }).end();
      else this.#carry(asked, answer, fault);
    });
    this.#away.on('request', (asked: IncomingMessage, answer) => {
      this.shownAway.push(asked.headers.authorization);
      asked.headers.authorization = `Basic ${Buffer.from(this.credentials).toString('base64')}`;
      this.#carry(asked, answer, 'none');
    });
  }

  static async start(): Promise<TestRegistry> {
    const directory = mkdtempSync(join(tmpdir(), 'squash-registry-'));
    const port = await freePort();
    writeFileSync(join(directory, 'htpasswd'), `${entry}\n`);
    const config = {
      version: 0.1,
      log: { level: 'error' },
      storage: { filesystem: { rootdirectory: join(directory, 'data') } },
      http: { addr: `127.0.0.1:${port}` },
      auth: { htpasswd: { realm: 'test', path: join(directory, 'htpasswd') } },
    };
    // JSON is YAML.
    writeFileSync(join(directory, 'config.yml'), JSON.stringify(config));
    const child = spawn('docker-registry', ['serve', join(directory, 'config.yml')], { stdio: 'ignore' });
    const [proxy, away] = [createServer(), createServer()];
    for (const server of [proxy, away]) await once(server.listen(0, '127.0.0.1'), 'listening');
    const registry = new TestRegistry({ directory, child, port, proxy, away });
    await waitFor('the registry', () =>
      fetch(`http://127.0.0.1:${port}/v2/`).then(
        ({ status }) => status === 401,
        () => false,
      ),
    );
    return registry;
  }

  /** Where it is asked through the proxy. */
  get host(): string {
    return hostOf(this.#proxy);
  }

  get awayHost(): string {
    return hostOf(this.#away);
  }

  /** Without the proxy, for whoever holds up this process meanwhile. */
  get directHost(): string {
    return `localhost:${this.#port}`;
  }

  /** The row of an auth file, as `docker login` leaves it. */
  get auth(): object {
    return { [this.host]: { auth: Buffer.from(this.credentials).toString('base64') } };
  }

  #carry(asked: IncomingMessage, answer: ServerResponse, fault: RegistryFault): void {
    const { url = '', method, headers } = asked;
    const outgoing = request({ host: '127.0.0.1', port: this.#port, path: url, method, headers }, (found) => {
      answer.writeHead(found.statusCode ?? 0, found.headers);
      const half = Number(found.headers['content-length'] ?? 0) / 2;
      let bytes = 0;
      found.on('data', (piece: Buffer) => {
        if (fault === 'wrong' && bytes === 0) piece[piece.length - 1] = (piece.at(-1) ?? 0) ^ 1;
        const room = fault === 'cut' && half >= 50_000 ? Math.floor(half) - bytes : piece.length;
        bytes += piece.length;
        if (room >= piece.length) answer.write(piece);
        else if (room >= 0) answer.write(piece.subarray(0, room), () => answer.destroy());
      });
      found.on('end', () => answer.end());
      found.on('error', () => answer.destroy());
    });
    outgoing.on('error', () => answer.destroy());
    asked.pipe(outgoing);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.#proxy, this.#away]) {
      server.closeAllConnections();
      server.close();
    }
    const ended = this.#child.exitCode === null ? once(this.#child, 'exit') : undefined;
    this.#child.kill('SIGKILL');
    await ended;
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export function hostOf(server: Server): string {
  return `localhost:${(server.address() as AddressInfo).port}`;
}

export async function freePort(): Promise<number> {
  const server = createPort().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
