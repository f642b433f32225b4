/**
 * A real daemon for tests, on a data directory and a port of its own. Started as what `squash serve` becomes: the
 * words before it only look whether programs must be compiled, which tests that run side by side must not do. What the
 * daemon's first stage would find out is found out here where that is the same: a Node less for each of some thousand starts.
 *
 * `kill()` is SIGKILL to the daemon alone: launcher and sandboxes live on, as in a crash. Disposing stops the
 * daemon, ends its launcher with everything in it, and removes the directory; it throws where anything is left.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chown, copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text as readText } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { enterCommand } from '../../base/src/daemon-command.ts';
import { serveCommand } from '../../host/src/serve.ts';
import { isOnVms } from './backend.ts';
import { baseLayer, repository } from './base-layer.ts';
import { vmModule } from './clients-layer.ts';
import { removeDataDirectory } from './data-directory.ts';
import {
  cgroupName,
  childrenOf,
  expectNoLeaks,
  type ProcessEntry,
  processes,
  processesOf,
  signalAll,
} from './leaks.ts';
import { freePort } from './free-port.ts';
import { ownedPrefix } from './owned-directory.ts';
import { waitFor } from './wait.ts';

export interface DaemonOptions {
  /** Added to a bare environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Module name → path of its squashfs file; `000-base-test` is always there. */
  readonly modules?: Readonly<Record<string, string>>;
  /** What was done before the first start: a data directory that is there, and removed at the end. */
  readonly dataDir?: string;
  /** Where the data directory is made; the system's directory for temporary files unless given. */
  readonly parent?: string;
  /** A process whose network and mount namespaces the daemon is started in. Needs root. */
  readonly beside?: number;
  /** The checkout that it is started from; this one unless given. `upgrade()` changes it to this one. */
  readonly project?: string;
  /** The user that starts it and owns its data directory; whoever runs the test unless given. Needs root. */
  readonly uid?: number;
  /** Files of the data directory that are there before the daemon is, mode 0600: name → text. */
  readonly files?: Readonly<Record<string, string>>;
}

/** What Node is given to run the daemon's first stage; checkouts from before programs were built have just the source. */
export function serveWords(project = repository): readonly string[] {
  const loader = join(project, 'base/bin/built.cjs');
  return [...(existsSync(loader) ? [loader] : []), join(project, 'host/src/serve.ts')];
}

const built = createRequire(import.meta.url)('../../base/bin/built.cjs') as {
  readonly startsFresh: (source: string) => boolean;
};

let isFresh: boolean | undefined;

/** Looked at once: nobody edits what is being tested. */
function isBuilt(): boolean {
  return (isFresh ??= built.startsFresh('host/src/serve.ts'));
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The parsed body; undefined where it is no JSON. Tests say what they expect of it. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
}

export class TestDaemon implements AsyncDisposable {
  readonly dataDir: string;
  readonly port: number;
  readonly #env: Readonly<Record<string, string>>;
  readonly #beside: number | undefined;
  readonly #user: { readonly uid?: number; readonly gid?: number };
  #project: string;
  #exitCode: number | undefined;
  #child: ChildProcess | undefined;
  #output = '';
  #isGuest = false;

  private constructor(
    dataDir: string,
    port: number,
    options: Pick<DaemonOptions, 'env' | 'beside' | 'uid' | 'project'>,
  ) {
    this.dataDir = dataDir;
    this.port = port;
    this.#env = options.env ?? {};
    this.#beside = options.beside;
    this.#user = options.uid === undefined ? {} : { uid: options.uid, gid: options.uid };
    this.#project = options.project ?? repository;
  }

  static async start(options: DaemonOptions = {}): Promise<TestDaemon> {
    const dataDir = options.dataDir ?? (await mkdtemp(join(options.parent ?? tmpdir(), ownedPrefix('test'))));
    const daemon = new TestDaemon(dataDir, await freePort(), options);
    try {
      await mkdir(join(dataDir, 'modules'), { recursive: true });
      const modules = {
        '000-base-test': await baseLayer(),
        ...(isOnVms ? { '900-vmm': await vmModule() } : {}),
        ...options.modules,
      };
      for (const [name, path] of Object.entries(modules)) {
        await copyFile(path, join(dataDir, 'modules', `${name}.squashfs`));
      }
      for (const [name, text] of Object.entries(options.files ?? {})) {
        await writeFile(join(dataDir, name), text, { mode: 0o600 });
      }
      if (options.uid !== undefined) await giveTo(options.uid, dataDir);
      await daemon.start();
      return daemon;
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Another daemon for a directory that has one; `launch()` it. Its directory stays the other's. */
  static async at(dataDir: string): Promise<TestDaemon> {
    const daemon = new TestDaemon(dataDir, await freePort(), {});
    daemon.#isGuest = true;
    return daemon;
  }

  get url(): string {
    const host = this.#env['SQUASH_HOST'] ?? '127.0.0.1';
    return `http://${host.includes(':') ? `[${host}]` : host}:${this.port}`;
  }

  /** The daemon's own process, not the launcher. Undefined while it is down. */
  get pid(): number | undefined {
    const keeper = this.#child?.pid;
    return keeper === undefined ? undefined : keptBy(keeper);
  }

  /** Everything the daemon wrote to stdout and stderr, over all its starts. */
  get output(): string {
    return this.#output;
  }

  /** Starts it again on the same data directory, and waits until it answers. */
  async start(env: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.launch(env);
    await this.healthy();
  }

  /** From its next start on it is of this checkout, or of that one. */
  upgrade(project = repository): void {
    this.#project = project;
  }

  /** Starts it and does not wait: it may die at a fault point first. */
  async launch(env: Readonly<Record<string, string>> = {}): Promise<void> {
    if (this.#child !== undefined) throw new Error('the daemon runs already');
    const command = this.#command({
      PATH: process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin',
      HOME: process.env['HOME'] ?? '/root',
      SQUASH_DATA: this.dataDir,
      SQUASH_PORT: String(this.port),
      SQUASH_LOG_FORMAT: 'json',
      ...(isOnVms ? { SQUASH_BACKEND: 'vm' } : {}),
      ...this.#env,
      ...env,
    });
    const child = spawn(command.program, command.words.slice(1), {
      // Away from any `.env` of the developer.
      cwd: this.dataDir,
      env: command.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...this.#user,
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text;
      });
    }
    child.on('exit', (code) => {
      this.#exitCode = code ?? undefined;
      if (this.#child === child) this.#child = undefined;
    });
    await once(child, 'spawn');
  }

  /** The daemon's keeper, or the first stage where that runs elsewhere, must build, or refuses: it says so itself. */
  #command(env: Readonly<Record<string, string>>): ReturnType<typeof serveCommand> {
    const isHere = this.#project === repository && this.#beside === undefined && this.#user.uid === undefined;
    if (isHere && isBuilt()) {
      try {
        const { words, env: whole } = serveCommand(env, this.dataDir);
        // What Node ignores goes on to the launcher and all it starts.
        const asNode = ['/bin/sh', '-c', 'trap "" PIPE XFSZ; exec "$@"', 'sh'];
        return { program: '/bin/sh', words: [...asNode, ...words], env: whole };
      } catch {
        // Told by the first stage.
      }
    }
    const words = [process.execPath, ...serveWords(this.#project)];
    if (this.#beside !== undefined)
      words.unshift('nsenter', `--target=${this.#beside}`, '--net', '--mount', '--');
    return { program: words[0] ?? '', words, env };
  }

  /** Resolves when the daemon answers. @throws with its output when it ends instead */
  async healthy(): Promise<void> {
    const child = this.#child;
    await waitFor(
      'the daemon to answer',
      async () => {
        if (this.#child !== child) throw new Error(`the daemon ended: ${this.#output.slice(-4_000)}`);
        // A request that finds nobody costs ten times as much.
        if (this.#beside === undefined && !(await this.#listens())) return false;
        try {
          return (await this.request('GET', '/cgi-bin/health')).status === 200;
        } catch {
          // It does not listen yet.
          return false;
        }
      },
      60_000,
    );
  }

  async #listens(): Promise<boolean> {
    const connection = connect(this.port, this.#env['SQUASH_HOST'] ?? '127.0.0.1');
    try {
      await once(connection, 'connect');
      return true;
    } catch {
      return false;
    } finally {
      connection.destroy();
    }
  }

  /** One request over TCP; a body is sent as JSON. @throws when the daemon dies before it answered */
  async request(method: string, path: string, body?: unknown): Promise<Answer> {
    const token = this.#env['SQUASH_AUTH_TOKEN'];
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      ...(text === undefined ? {} : { 'content-type': 'application/json' }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    if (this.#beside !== undefined) return await this.#requestLocally({ method, path, headers, text });
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers,
      ...(text === undefined ? {} : { body: text }),
    });
    const answer = await response.text();
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      text: answer,
      json: parsed(answer),
    };
  }

  /** Over the Unix socket: the ports of a daemon in another network are not this test's. */
  async #requestLocally(wanted: {
    readonly method: string;
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly text: string | undefined;
  }): Promise<Answer> {
    const { text, ...options } = wanted;
    const sent = request({ ...options, socketPath: join(this.dataDir, 'run', 'api.sock'), agent: false });
    sent.end(text);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const answer = await readText(response);
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      text: answer,
      json: parsed(answer),
    };
  }

  /** A request whose status must be 2xx; its parsed body. */
  async call(method: string, path: string, body?: unknown): Promise<Answer['json']> {
    const answer = await this.request(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.json;
  }

  /** Resolves when the daemon has ended, with its exit code. */
  async ended(): Promise<number | undefined> {
    const child = this.#child;
    if (child !== undefined && child.exitCode === null && child.signalCode === null)
      await once(child, 'exit');
    this.#child = undefined;
    return this.#exitCode;
  }

  /** Ends the daemon at once, as a crash does. */
  async kill(): Promise<void> {
    const { pid } = this;
    if (pid !== undefined) kill(pid);
    await this.ended();
  }

  /** Ends the privileged helper with all that could replace it from within. */
  async killHelpers(): Promise<void> {
    // Stopped first: else the parent makes another child in between.
    for (const signal of ['SIGSTOP', 'SIGKILL'] as const) this.signalHelpers(signal);
  }

  signalHelpers(signal: NodeJS.Signals): void {
    const title = `squash-launch helper ${cgroupName(this.dataDir)}`;
    for (const { pid, command } of processes()) if (command === title) kill(pid, signal);
  }

  /** Ends the daemon politely; sandboxes live on. */
  async stop(): Promise<void> {
    this.#child?.kill('SIGTERM');
    await this.ended();
  }

  /** Everything that runs goes down hard, as in a power cut. */
  async cutPower(): Promise<void> {
    await this.kill();
    signalAll(this.dataDir, 'SIGKILL', () => true);
    await waitFor('everything to be down', () => processesOf(this.dataDir).length === 0);
  }

  /** The database is gone, as after a restore of the directory without it. The daemon must be down. */
  async forgetDatabase(): Promise<void> {
    for (const suffix of ['', '-wal', '-shm'])
      await rm(join(this.dataDir, `squash.db${suffix}`), { force: true });
  }

  /** The database knows this sandbox no more. The daemon must be down. */
  forgetRow(id: string): void {
    const database = new DatabaseSync(join(this.dataDir, 'squash.db'));
    database.prepare('DELETE FROM sandboxes WHERE id = ?').run(id);
    database.close();
  }

  /** The database's first pages hold something else. The daemon must be down. */
  async damageDatabase(): Promise<void> {
    const path = join(this.dataDir, 'squash.db');
    const bytes = await readFile(path);
    bytes.fill(0x5a, 0, Math.min(8_192, bytes.length));
    await writeFile(path, bytes);
  }

  /** What `squash doctor --repair` runs. The daemon must be down. */
  async repair(): Promise<Readonly<Record<string, unknown>>> {
    const { program, words } = enterCommand({ dataDir: this.dataDir, runDir: join(this.dataDir, 'run') }, [
      process.execPath,
      join(repository, 'host/src/main.ts'),
      'repair',
    ]);
    const { stdout } = await promisify(execFile)(program, words.slice(1), {
      cwd: this.dataDir,
      env: { PATH: process.env['PATH'], SQUASH_DATA: this.dataDir },
    });
    return JSON.parse(stdout) as Record<string, unknown>;
  }

  /** @throws when anything of this daemon is left on the machine */
  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#child;
    const timer = setTimeout(() => child?.kill('SIGKILL'), 20_000);
    await this.stop();
    clearTimeout(timer);
    if (this.#isGuest) return;
    await endAll(this.dataDir);
    await expectNoLeaks(this.dataDir);
    if (process.env['KEEP'] === '1') return;
    await removeDataDirectory(this.dataDir);
  }
}

async function giveTo(uid: number, directory: string): Promise<void> {
  const inside = await readdir(directory, { recursive: true });
  for (const path of ['.', ...inside]) await chown(join(directory, path), uid, uid);
}

/**
 * Ends the launcher, and with it every sandbox, and the egress process: politely, and hard where that does not help. By process id, and
 * only processes that name this test's own data directory.
 */
async function endAll(dataDir: string): Promise<void> {
  // First, as `squash stop --all` does: the launcher removes the group it is in.
  const isEgress = (entry: ProcessEntry): boolean => entry.command.includes('egress/src/main.ts');
  signalAll(dataDir, 'SIGTERM', isEgress);
  await waitFor('the egress process to end', () => !processesOf(dataDir).some(isEgress), 15_000);
  signalAll(dataDir, 'SIGTERM', (entry) => entry.command.includes('squash-launch'));
  try {
    await waitFor('the launcher to end', () => processesOf(dataDir).length === 0, 15_000);
  } catch {
    signalAll(dataDir, 'SIGKILL', () => true);
    throw new Error(`the launcher of "${dataDir}" did not end at SIGTERM`);
  }
}

/** The process that `squash-launch keep` has as its child; itself before it has one, or where a release knows no keeper. */
function keptBy(keeper: number): number {
  const children = childrenOf(keeper);
  const daemon = children.find(({ command }) => command.includes('host/src/main.ts'));
  return (daemon ?? children.find(({ command }) => command.includes('squash-launch keeper')))?.pid ?? keeper;
}

function kill(pid: number, signal: NodeJS.Signals = 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended by itself meanwhile.
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Some answers have no body or are no JSON.
    return undefined;
  }
}
