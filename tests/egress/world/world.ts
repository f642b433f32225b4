/**
 * A daemon of Squash beside the little Internet: both in one network namespace, so that a sandbox of that daemon meets
 * real addresses, names, certificates and resolvers, and whatever leaves it is witnessed.
 *
 * The tests themselves stay outside. They speak with the daemon over its Unix socket and with the world over IPC.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import type { ExecRecord } from '@squash/contract/exec';
import type { Secret } from '@squash/contract/secrets';
import { packModule } from '../../support/base-layer.ts';
import { clientModules } from '../../support/clients-layer.ts';
import { TestDaemon } from '../../support/daemon.ts';
import { patience } from '../../support/wait.ts';
import type { RequestSeen, Seen } from './events.ts';
import { certificateNames, places } from './places.ts';
import type { WorldCall } from './inside.ts';

const run = promisify(execFile);

/** Network namespaces, mounts over files of the host: nobody else may do that to a machine. */
export const needsRoot = process.getuid?.() !== 0 && 'a network namespace of its own needs root';

export interface WorldOptions {
  /** `secrets.json` of the daemon. */
  readonly secrets?: Readonly<Record<string, Secret>>;
  /** `egress-ceiling.json`. */
  readonly ceiling?: unknown;
  /** `egress-upstreams.json`. */
  readonly upstreams?: unknown;
  readonly env?: Readonly<Record<string, string>>;
}

/** Debian, the clients, and what the tests bring. */
export const worldLayers = ['000-base-debian', '100-clients-test', '200-tools'];

export interface SandboxOptions {
  readonly allow_net?: readonly string[];
  readonly policy?: unknown;
  /** None: all there are. */
  readonly secrets?: readonly string[];
  readonly own_secrets?: unknown;
  readonly upstream?: string;
  readonly memory_mb?: number;
  readonly cpu?: number;
  readonly max_lifetime_s?: number;
}

export class World implements AsyncDisposable {
  readonly directory: string;
  readonly daemon: TestDaemon;
  readonly #stack: AsyncDisposableStack;
  readonly #child: ChildProcess;
  readonly #said: () => string;
  #calls = 0;

  private constructor(parts: {
    readonly directory: string;
    readonly daemon: TestDaemon;
    readonly child: ChildProcess;
    readonly said: () => string;
    readonly stack: AsyncDisposableStack;
  }) {
    this.directory = parts.directory;
    this.daemon = parts.daemon;
    this.#child = parts.child;
    this.#said = parts.said;
    this.#stack = parts.stack;
  }

  static async start(options: WorldOptions = {}): Promise<World> {
    await using stack = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), 'squash-world-'));
    stack.defer(async () => await rm(directory, { recursive: true, force: true }));
    await makeHostFiles(directory);
    const { child, said } = await startInside(directory, stack);
    const tools = join(directory, '200-tools.squashfs');
    await packModule(tools, await toolFiles(directory));
    const modules = { ...(await clientModules()), '200-tools': tools };
    const daemon = stack.use(
      await TestDaemon.start({
        modules,
        files: dataFiles(options),
        beside: child.pid ?? 0,
        ...(options.env !== undefined && { env: options.env }),
      }),
    );
    return new World({ directory, daemon, child, said, stack: stack.move() });
  }

  /** The process that holds the world's network and mount namespaces. Programs of `tools/` are in `directory`. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** A place in the witness's book, to ask later what came after. */
  mark(): Promise<number> {
    return this.#ask({ call: 'mark' }) as Promise<number>;
  }

  async since(mark: number): Promise<readonly Seen[]> {
    return (await this.#ask({ call: 'since', mark })) as readonly Seen[];
  }

  async requestsSince(mark: number): Promise<readonly RequestSeen[]> {
    return (await this.since(mark)).filter((event) => event.kind === 'request');
  }

  /** Names with a second answer begin with their first again. */
  async resetNames(): Promise<void> {
    await this.#ask({ call: 'reset' });
  }

  async create(id: string, options: SandboxOptions = {}): Promise<void> {
    await this.daemon.call('POST', '/cgi-bin/api/sandboxes', { id, layers: worldLayers, ...options });
  }

  async exec(id: string, cmd: string, timeoutS = 12): Promise<ExecRecord> {
    return (await this.daemon.call('POST', `/cgi-bin/api/sandboxes/${id}/exec`, {
      cmd,
      timeout: timeoutS * patience,
    })) as ExecRecord;
  }

  /** Starts a command and leaves it to itself. @returns its job's path */
  async start(id: string, cmd: string, timeoutS = 300): Promise<string> {
    const path = `/cgi-bin/api/sandboxes/${id}`;
    const job = (await this.daemon.call('POST', `${path}/exec-bg`, { cmd, timeout: timeoutS })) as {
      readonly job_id: number | string;
    };
    return `${path}/jobs/${job.job_id}`;
  }

  /** Its output, where it succeeds. */
  async output(id: string, cmd: string, timeoutS = 12): Promise<string> {
    const { exit_code: code, stdout, stderr } = await this.exec(id, cmd, timeoutS);
    assert.equal(code, 0, `${cmd}\n${stdout}${stderr}`);
    return stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  async #ask(message: { call: WorldCall['call']; mark?: number }): Promise<unknown> {
    this.#calls += 1;
    const id = this.#calls;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const hear = (answer: { readonly id?: number; readonly result?: unknown }): void => {
      if (answer.id === id) resolve(answer.result);
    };
    const end = (): void => reject(new Error(`the world has ended: ${this.#said()}`));
    this.#child.on('message', hear).once('exit', end);
    if (this.#child.connected) this.#child.send({ id, ...message });
    else end();
    try {
      return await promise;
    } finally {
      this.#child.off('message', hear).off('exit', end);
    }
  }
}

async function startInside(
  directory: string,
  stack: AsyncDisposableStack,
): Promise<{ readonly child: ChildProcess; readonly said: () => string }> {
  const words = ['--net', '--mount', '--propagation', 'private', '--', process.execPath];
  const child = spawn('unshare', [...words, join(import.meta.dirname, 'inside.ts'), directory], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: directory },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const ended = once(child, 'exit');
  stack.defer(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  await Promise.race([
    once(child, 'message'),
    ended.then(() => {
      throw new Error(`the world did not begin: ${output}`);
    }),
  ]);
  return { child, said: () => output };
}

/** Authorities, certificates, and what a host has in /etc. The authority is added to those the machine trusts. */
async function makeHostFiles(directory: string): Promise<void> {
  const at = (name: string): string => join(directory, name);
  const names = [
    ...certificateNames.map((name) => `DNS:${name}`),
    ...[places.front, places.evil, places.evil6, places.otherResolver].map((address) => `IP:${address}`),
  ].join(',');
  await makeCertificate(directory, 'authority', { subject: 'authority of the tests' });
  await makeCertificate(directory, 'nobody', { subject: 'nobody of the tests' });
  await makeLeaf(directory, { name: 'server', authority: 'authority', names });
  await makeLeaf(directory, { name: 'bad', authority: 'nobody', names });
  const trusted = await readFile('/etc/ssl/certs/ca-certificates.crt', 'utf8');
  await writeFile(at('authorities.pem'), `${trusted}\n${await readFile(at('authority.pem'), 'utf8')}`);
  await writeFile(at('resolv.conf'), `nameserver ${places.resolver}\n`);
  await writeFile(at('hosts'), '127.0.0.1 localhost\n');
}

/** Who a certificate is for, and what OpenSSL is told besides. */
interface CertificateWords {
  readonly subject: string;
  readonly words?: readonly string[];
}

/** `NAME.key` and `NAME.pem`. */
async function makeCertificate(
  directory: string,
  name: string,
  { subject, words = [] }: CertificateWords,
): Promise<void> {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const files = ['-keyout', join(directory, `${name}.key`), '-out', join(directory, `${name}.pem`)];
  await run('openssl', [
    'req',
    '-x509',
    ...key,
    '-days',
    '30',
    '-subj',
    `/CN=${subject}`,
    ...words,
    ...files,
  ]);
}

/** @param names of a leaf, as OpenSSL writes alternative names */
async function makeLeaf(
  directory: string,
  { name, authority, names }: { readonly name: string; readonly authority: string; readonly names: string },
): Promise<void> {
  const at = (file: string): string => join(directory, file);
  const extensions = [`subjectAltName=${names}`, 'basicConstraints=critical,CA:FALSE'];
  const words = [
    ...extensions.flatMap((extension) => ['-addext', extension]),
    '-CA',
    at(`${authority}.pem`),
    '-CAkey',
    at(`${authority}.key`),
  ];
  await makeCertificate(directory, name, { subject: 'server of the tests', words });
}

/**
 * What the sandboxes get beside the clients: `tools/` as `/opt/tools`, and the authorities as an operator's own base
 * would have them, because a tunnel's certificates are the programs' to check.
 */
async function toolFiles(directory: string): Promise<Record<string, string | Uint8Array>> {
  const folder = join(import.meta.dirname, '../tools');
  const files: Record<string, string | Uint8Array> = {
    'etc/ssl/certs/ca-certificates.crt': await readFile(join(directory, 'authorities.pem'), 'utf8'),
  };
  for (const name of await readdir(folder)) {
    files[`opt/tools/${name}`] = await readFile(join(folder, name), 'utf8');
    if (!name.endsWith('.c')) continue;
    // With the other C library: its resolver asks all servers at once and takes the first answer.
    const program = join(directory, name.replace('.c', '-musl'));
    await run('musl-gcc', ['-static', '-O2', '-o', program, join(folder, name)]);
    files[`opt/tools/${basename(program)}`] = await readFile(program);
  }
  return files;
}

/** Files of the data directory that are there before the daemon begins: path → text. */
function dataFiles(options: WorldOptions): Record<string, string> {
  const files: Record<string, string> = {};
  if (options.secrets !== undefined) {
    files['secrets.json'] = JSON.stringify({ secrets: options.secrets });
  }
  if (options.ceiling !== undefined) files['egress-ceiling.json'] = JSON.stringify(options.ceiling);
  if (options.upstreams !== undefined) files['egress-upstreams.json'] = JSON.stringify(options.upstreams);
  return files;
}
