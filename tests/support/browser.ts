/**
 * Debian's Chromium, driven over its debugging protocol. Where the machine has none its packages are unpacked into `.cache/`, with
 * the libraries that are missing here: nothing is installed. 120 MB, and half a minute the first time.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import WebSocket from 'ws';
import { repository } from './base-layer.ts';
import { waitFor } from './wait.ts';

const run = promisify(execFile);
const place = join(repository, '.cache', 'browser');
const packages = ['chromium', 'fonts-dejavu-core'];
const installed = '/usr/lib/chromium/chromium';

interface Program {
  readonly path: string;
  readonly libraries: readonly string[];
}

/** Why there is no browser here; undefined where there is one, or can be. */
export const noBrowser: string | undefined =
  existsSync(installed) || existsSync(place) || existsSync('/usr/bin/apt-get')
    ? undefined
    : 'no Chromium, and no apt to get it with';

async function program(): Promise<Program> {
  if (existsSync(installed)) return { path: installed, libraries: [] };
  if (!existsSync(place)) await unpack();
  const [triple = ''] = (await readdir(join(place, 'usr/lib'))).filter((name) => name.endsWith('-linux-gnu'));
  const libraries = join(place, 'usr/lib', triple);
  return { path: join(place, installed), libraries: [libraries, join(libraries, 'pulseaudio')] };
}

async function unpack(): Promise<void> {
  await mkdir(join(repository, '.cache'), { recursive: true });
  const work = await mkdtemp(`${place}.`);
  try {
    const { stdout } = await run('apt-get', [
      'install',
      '--simulate',
      '--no-install-recommends',
      ...packages,
    ]);
    const names = [...stdout.matchAll(/^Inst (\S+)/gm)].map(([, name]) => name ?? '');
    await run('apt-get', ['download', '-qq', ...names], { cwd: work });
    for (const name of (await readdir(work)).filter((each) => each.endsWith('.deb')))
      await run('dpkg-deb', ['-x', join(work, name), join(work, 'root')]);
    // Two tests may get it at once: the second finds the first one's.
    await rename(join(work, 'root'), place).catch((error: unknown) => {
      if (!existsSync(place)) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

interface Message {
  readonly id?: number;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string };
}

export class Browser implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #profile: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, PromiseWithResolvers<Readonly<Record<string, unknown>>>>();
  #id = 0;

  private constructor(child: ChildProcess, profile: string, socket: WebSocket) {
    this.#child = child;
    this.#profile = profile;
    this.#socket = socket;
    socket.on('message', (data: Buffer) => this.#take(JSON.parse(data.toString()) as Message));
  }

  static async start(): Promise<Browser> {
    const { path, libraries } = await program();
    const profile = await mkdtemp(join(tmpdir(), 'squash-browser-'));
    const words = [
      '--headless=new',
      // It finds no user namespace where a test runs as root, and opens nothing but this test's pages.
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--disable-component-update',
      '--no-first-run',
      '--no-proxy-server',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1',
      '--remote-debugging-port=0',
      `--user-data-dir=${profile}`,
      'about:blank',
    ];
    const child = spawn(path, words, {
      env: { PATH: '/usr/bin:/bin', HOME: profile, LD_LIBRARY_PATH: libraries.join(':') },
      stdio: ['ignore', 'ignore', 'pipe'],
      // Its own group, so that all of its processes can be ended.
      detached: true,
    });
    let said = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    try {
      const address = await waitFor(
        'the browser',
        () => {
          if (child.exitCode !== null) throw new Error(`Chromium ended: ${said.slice(-2_000)}`);
          return /DevTools listening on (ws:\S+)/.exec(said)?.[1];
        },
        60_000,
      );
      const socket = new WebSocket(address);
      await once(socket, 'open');
      return new Browser(child, profile, socket);
    } catch (error) {
      await end(child, profile);
      throw error;
    }
  }

  /** A page of its own, loading. */
  async open(url: string): Promise<Page> {
    const { targetId } = await this.send('Target.createTarget', { url });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    return new Page(this, String(sessionId));
  }

  async send(
    method: string,
    params: Readonly<Record<string, unknown>>,
    sessionId?: string,
  ): Promise<Readonly<Record<string, unknown>>> {
    this.#id += 1;
    const waiting = Promise.withResolvers<Readonly<Record<string, unknown>>>();
    this.#waiting.set(this.#id, waiting);
    this.#socket.send(JSON.stringify({ id: this.#id, method, params, ...(sessionId && { sessionId }) }));
    return await waiting.promise;
  }

  #take({ id = 0, result, error }: Message): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(result ?? {});
    else waiting?.reject(new Error(error.message));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    // By itself it waits for its own processes; one that does not is killed below.
    await Promise.race([
      this.send('Browser.close', {}).then(() => ended),
      pause(5_000, undefined, { ref: false }),
    ]);
    this.#socket.terminate();
    await end(this.#child, this.#profile);
  }
}

export class Page {
  readonly #browser: Browser;
  readonly #session: string;

  constructor(browser: Browser, session: string) {
    this.#browser = browser;
    this.#session = session;
  }

  /** What the expression gives, in the page; of a promise what it resolves with. */
  async evaluate(expression: string): Promise<unknown> {
    const answer = await this.#browser.send(
      'Runtime.evaluate',
      { expression, awaitPromise: true, returnByValue: true },
      this.#session,
    );
    const { result, exceptionDetails } = answer as {
      readonly result: { readonly value?: unknown };
      readonly exceptionDetails?: { readonly exception?: { readonly description?: string } };
    };
    if (exceptionDetails !== undefined)
      throw new Error(`the page threw: ${exceptionDetails.exception?.description}`);
    return result.value;
  }

  /** Waits until the expression is true; it may fail while the page loads. */
  async until(expression: string): Promise<void> {
    await waitFor(
      expression,
      async () => (await this.evaluate(expression).catch(() => false)) === true,
      30_000,
    );
  }
}

async function end(child: ChildProcess, profile: string): Promise<void> {
  const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
  try {
    process.kill(-(child.pid ?? 0), 'SIGKILL');
  } catch {
    // All of it has ended.
  }
  await ended;
  // Processes that were killed a moment ago may still write.
  await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}
