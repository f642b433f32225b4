/** Real proxies beside a world's daemon: tinyproxy speaks HTTP, microsocks SOCKS5. Both want a password, and log what they do. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { unpackProxies } from '../support/clients-layer.ts';
import { waitFor } from '../support/wait.ts';
import type { World } from './world/world.ts';

export const login = { name: 'corp', password: 'pass-word-of-the-proxy' };
export const proxyPorts = { http: 3128, socks: 1080, nobody: 3999 } as const;

export class Proxies implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  #log = '';

  static async start(world: World): Promise<Proxies> {
    await unpackProxies(world.directory);
    const proxies = new Proxies();
    const config = join(world.directory, 'tinyproxy.conf');
    const lines = [
      `Port ${proxyPorts.http}`,
      'Listen 127.0.0.1',
      'Timeout 60',
      'LogLevel Connect',
      `BasicAuth ${login.name} ${login.password}`,
    ];
    await writeFile(config, `${lines.join('\n')}\n`);
    const at = (program: string): string => join(world.directory, 'usr/bin', program);
    proxies.#begin(world, [at('tinyproxy'), '-d', '-c', config]);
    const socks = ['-i', '127.0.0.1', '-p', `${proxyPorts.socks}`, '-u', login.name, '-P', login.password];
    proxies.#begin(world, [at('microsocks'), ...socks]);
    const listening = `ss -ltn | grep -c -e :${proxyPorts.http} -e :${proxyPorts.socks}`;
    await waitFor('proxies that listen', async () => (await inside(world, listening)) === '2');
    return proxies;
  }

  /** What both have said since then. */
  since(mark: number): string {
    return this.#log.slice(mark);
  }

  mark(): number {
    return this.#log.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  #begin(world: World, words: readonly string[]): void {
    const child = spawn('nsenter', [`--target=${world.pid}`, '--net', '--mount', '--', ...words], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#log += text;
      });
    }
    this.#stack.defer(() => ended(child));
  }
}

async function ended(child: ChildProcess): Promise<void> {
  const end = once(child, 'exit');
  child.kill('SIGKILL');
  await end;
}

async function inside(world: World, script: string): Promise<string> {
  const words = [`--target=${world.pid}`, '--net', '--', 'sh', '-c', script];
  const child = spawn('nsenter', words, { stdio: ['ignore', 'pipe', 'ignore'] });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await once(child, 'close');
  return output.trim();
}
