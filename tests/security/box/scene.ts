/** What stands around boxes under attack: a process, servers, files of the host's directories for temporary files. */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createWebServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { removeDataDirectory } from '../../support/data-directory.ts';
import { ownedPrefix } from '../../support/owned-directory.ts';
import { HostSide } from '../host-side.ts';
import { attackTool } from '../tool.ts';
import type { Outside } from './ground.ts';

const socketNames = ['agent', 'X0', 'bus', 'docker.sock'];

export class BoxScene implements AsyncDisposable {
  readonly secret: string;
  readonly host: HostSide;
  readonly outside: Outside;
  readonly env: Readonly<Record<string, string>>;
  readonly #servers: readonly Server[];
  readonly #files: readonly string[];

  private constructor(started: {
    readonly secret: string;
    readonly host: HostSide;
    readonly outside: Outside;
    readonly servers: readonly Server[];
  }) {
    this.secret = started.secret;
    this.host = started.host;
    this.outside = started.outside;
    this.#servers = started.servers;
    this.#files = [started.outside.lasting, `${started.outside.lasting}-canary`];
    const { dataDir } = started.outside;
    this.env = {
      SQUASH_BOX_DATA: dataDir,
      SQUASH_DATA: join(dataDir, 'none'),
      SQUASH_IDLE_EXIT_S: '2',
      SQUASH_MEMORY_RESERVE_MB: '0',
      A_SECRET_TOKEN: 'of-the-shell',
      AWS_SECRET_ACCESS_KEY: 'of-the-shell',
      EDITOR: 'https://user:of-the-shell@host/',
      LD_LIBRARY_PATH: '/of-the-shell',
      NODE_OPTIONS: '--title=of-the-shell',
      SSH_AUTH_SOCK: '/of-the-shell',
    };
  }

  static async start(): Promise<BoxScene> {
    const { program } = await attackTool();
    const secret = `bait-${randomBytes(8).toString('hex')}`;
    const host = await HostSide.start(program);
    const dataDir = join(mkdtempSync(join(tmpdir(), ownedPrefix('box'))), 'data');
    const servers = await Promise.all(
      socketNames.map(async (name) => {
        const server = createServer((connection) => connection.on('error', () => {}).end(secret));
        server.listen(join(host.folder, name));
        await once(server, 'listening');
        return server;
      }),
    );
    const web = createWebServer((_request, response) => response.end(secret));
    web.listen(0, '0.0.0.0');
    await once(web, 'listening');
    const address = Object.values(networkInterfaces())
      .flatMap((each) => each ?? [])
      .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
    spawnSync('mkfifo', [join(host.folder, 'fifo')]);
    const lasting = join('/var/tmp', `squash-box-bait-${randomBytes(4).toString('hex')}`);
    writeFileSync(lasting, secret);
    const outside = {
      tool: program,
      temporary: host.secretFile,
      lasting,
      dataDir,
      victimPid: host.victimPid,
      victimWord: host.victimWord,
      abstractSocket: host.socket,
      port: host.port,
      web: address && `${address}:${String((web.address() as AddressInfo).port)}`,
      sockets: host.folder,
    };
    return new BoxScene({ secret, host, outside, servers: [...servers, web] });
  }

  get secrets(): readonly string[] {
    return [this.secret, ...this.host.secrets];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.#servers) server.close();
    await this.host[Symbol.asyncDispose]();
    for (const file of this.#files) rmSync(file, { force: true });
    await removeDataDirectory(dirname(this.outside.dataDir));
  }
}
