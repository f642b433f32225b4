/**
 * A real authority for ACME on this machine: Let's Encrypt's own test server `pebble`, with a name server of its project whose records a
 * hook sets (`dns-hook` beside this file).
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { Resolver } from 'node:dns/promises';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { freePort } from '../free-port.ts';
import { waitFor } from '../wait.ts';

const run = promisify(execFile);

export const dnsHook = join(import.meta.dirname, 'dns-hook');

interface Binding {
  readonly kid: string;
  readonly key: string;
}

export class TestAuthority implements AsyncDisposable {
  readonly directoryUrl: string;
  /** Of the authority that its own listeners are certified by, not of those it signs with. */
  readonly caFile: string;
  readonly nameServer: string;
  #hookCallsSeen = 0;
  readonly #hookLog: string;
  readonly #dns: string;
  readonly #management: number;
  readonly #children: ChildProcess[] = [];
  #said = '';

  private constructor(directory: string, ports: readonly number[]) {
    const [acme, management, dns, records] = ports;
    this.directoryUrl = `https://127.0.0.1:${acme}/dir`;
    this.caFile = join(directory, 'listeners.pem');
    this.nameServer = `127.0.0.1:${dns}`;
    this.#dns = `http://127.0.0.1:${records}`;
    this.#management = management ?? 0;
    this.#hookLog = join(directory, 'hook.log');
  }

  /** @param binding where it takes accounts with this key only */
  static async start(directory: string, binding?: Binding): Promise<TestAuthority> {
    await mkdir(directory);
    const ports = [await freePort(), await freePort(), await freePort(), await freePort()];
    const authority = new TestAuthority(directory, ports);
    try {
      await authority.#start(directory, ports, binding);
    } catch (error) {
      await authority[Symbol.asyncDispose]();
      throw error;
    }
    return authority;
  }

  async #start(directory: string, ports: readonly number[], binding: Binding | undefined): Promise<void> {
    const [acme, management, dns, records] = ports;
    const privateKey = join(directory, 'listeners.key');
    const words =
      'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=pebble';
    const names = ['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', privateKey, '-out', this.caFile];
    await run('openssl', [...words.split(' '), ...names]);
    const config = join(directory, 'pebble.json');
    const pebble = {
      listenAddress: `127.0.0.1:${acme}`,
      managementListenAddress: `127.0.0.1:${management}`,
      certificate: this.caFile,
      privateKey,
      httpPort: 1,
      tlsPort: 1,
      externalAccountBindingRequired: binding !== undefined,
      ...(binding !== undefined && { externalAccountMACKeys: { [binding.kid]: binding.key } }),
    };
    await writeFile(config, JSON.stringify({ pebble }));
    await writeFile(this.#hookLog, '');
    const off = ['-http01', '', '-https01', '', '-tlsalpn01', ''];
    const dnsWords = ['-dns01', this.nameServer, '-management', `127.0.0.1:${records}`];
    this.#spawn('pebble-challtestsrv', [...dnsWords, ...off], {});
    this.#spawn('pebble', ['-config', config, '-dnsserver', `127.0.0.1:${dns}`], {
      // Or it looks after up to 15 s.
      PEBBLE_VA_NOSLEEP: '1',
      // Or every other order needs no challenge. Its refusals of good nonces, one in twenty, stay.
      PEBBLE_AUTHZREUSE: '0',
    });
    await waitFor('the authority to answer', () => this.root().catch(() => undefined));
    await waitFor('its name server to answer', () =>
      fetch(this.#dns).then(
        () => true,
        () => undefined,
      ),
    );
  }

  #spawn(program: string, words: readonly string[], env: Readonly<Record<string, string>>): void {
    const child = spawn(program, words, {
      env: { PATH: process.env['PATH'], ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (this.#said += text));
    this.#children.push(child);
  }

  /** For a failing test's message. */
  get said(): string {
    return this.#said.slice(-4_000);
  }

  /** Certificate of the authority that signs. */
  async root(): Promise<string> {
    const ca = await readFile(this.caFile);
    const asked = get({ host: '127.0.0.1', port: this.#management, path: '/roots/0', ca, agent: false });
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    return await readText(answer);
  }

  /** What the hook needs. */
  hookEnvironment(does = ''): Record<string, string> {
    return { CHALLTESTSRV: this.#dns, HOOK_LOG: this.#hookLog, HOOK_DOES: does };
  }

  /** Its calls since the last look. The log is only read: a line that comes meanwhile is seen by the next look. */
  async hookCalls(): Promise<readonly string[]> {
    const lines = (await readFile(this.#hookLog, 'utf8')).split('\n').slice(0, -1);
    const unseen = lines.slice(this.#hookCallsSeen);
    this.#hookCallsSeen = lines.length;
    return unseen;
  }

  async recordOf(name: string): Promise<readonly string[]> {
    const resolver = new Resolver();
    resolver.setServers([this.nameServer]);
    return (await resolver.resolveTxt(name).catch(() => [])).flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  }
}
