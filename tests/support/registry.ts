/**
 * Debian's docker-registry for a test, with a user and a password, and before it a proxy that carries bytes until it is told to do
 * otherwise. `docker-registry` takes a moment to start, so one serves a whole file.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DockerRegistry } from './docker-registry.ts';

/**
 * What is done with one answer. `cut`: half of a large one comes; `wrong`: one byte is another; `away`: another host has it. `gone`: the
 * connection ends before the registry hears of it; `half`: when it has half of what is sent.
 */
export type RegistryFault = 'none' | 'cut' | 'wrong' | 'away' | 'gone' | 'half';

const user = 'squash';
const password = 'geheim';
/** By `htpasswd -Bbn`. */
const entry = `${user}:$2y$05$vDLSJ050JVOmVTUPvdSLa.pCKa8pxYOjiRTpijXD/9eZUXJK9TxaG`;

export class TestRegistry implements AsyncDisposable {
  readonly directory: string;
  readonly credentials = `${user}:${password}`;
  readonly seen: {
    readonly method: string;
    readonly path: string;
    readonly range: string | undefined;
  }[] = [];
  fault: (asked: IncomingMessage) => RegistryFault = () => 'none';
  /** The logins that the other host was shown. */
  readonly shownAway: (string | undefined)[] = [];
  readonly #behind: DockerRegistry;
  readonly #proxy: Server;
  /** A host of its own by its port, with what the registry has. */
  readonly #away: Server;

  private constructor(parts: {
    directory: string;
    behind: DockerRegistry;
    proxy: Server;
    away: Server;
  }) {
    this.directory = parts.directory;
    this.#behind = parts.behind;
    this.#proxy = parts.proxy;
    this.#away = parts.away;
    this.#proxy.on('request', (asked, answer) => {
      this.seen.push({ method: asked.method ?? '', path: asked.url ?? '', range: asked.headers.range });
      const fault = this.fault(asked);
      if (fault === 'away') answer.writeHead(307, { location: `http://${this.awayHost}${asked.url}` }).end();
      else if (fault === 'gone') asked.socket.destroy();
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
    writeFileSync(join(directory, 'htpasswd'), `${entry}\n`);
    const auth = { htpasswd: { realm: 'test', path: join(directory, 'htpasswd') } };
    const behind = await DockerRegistry.start({ directory, auth });
    const [proxy, away] = [createServer(), createServer()];
    for (const server of [proxy, away]) await once(server.listen(0, '127.0.0.1'), 'listening');
    return new TestRegistry({ directory, behind, proxy, away });
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
    return `localhost:${this.#behind.port}`;
  }

  /** The row of an auth file, as `docker login` leaves it. */
  get auth(): object {
    return { [this.host]: { auth: Buffer.from(this.credentials).toString('base64') } };
  }

  #carry(asked: IncomingMessage, answer: ServerResponse, fault: RegistryFault): void {
    const { url = '', method, headers } = asked;
    const outgoing = request(
      { host: '127.0.0.1', port: this.#behind.port, path: url, method, headers },
      (found) => {
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
      },
    );
    outgoing.on('error', () => answer.destroy());
    if (fault === 'half') endHalfway(asked, outgoing);
    else asked.pipe(outgoing);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.#proxy, this.#away]) {
      server.closeAllConnections();
      server.close();
    }
    await this.#behind[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Both connections end when half of the body has gone through. */
function endHalfway(asked: IncomingMessage, outgoing: ClientRequest): void {
  let left = Number(asked.headers['content-length']) / 2;
  asked.on('data', (piece: Buffer) => {
    left -= piece.length;
    if (left > 0) outgoing.write(piece);
    else if (!outgoing.destroyed)
      outgoing.write(piece, () => {
        outgoing.destroy();
        asked.socket.destroy();
      });
  });
}

export function hostOf(server: Server): string {
  return `localhost:${(server.address() as AddressInfo).port}`;
}
