/**
 * What stands outside for the attacker to find: a secret file, a victim process with a secret in its environment,
 * servers on an abstract Unix socket, a TCP port and a shared-memory key. And the look afterwards whether
 * anything of it was touched.
 */
import { type ChildProcessByStdio, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { freePort } from '../support/free-port.ts';

type Server = ChildProcessByStdio<null, Readable, null>;

export class HostSide implements AsyncDisposable {
  /** None of these may ever be in a sandbox's output. */
  readonly secrets: readonly string[];
  readonly folder: string;
  readonly secretFile: string;
  readonly socket: string;
  readonly port: number;
  readonly victimWord: string;
  readonly #victim: Server;
  readonly #server: Server;
  readonly #hostname = hostname();

  private constructor(folder: string, identity: Identity, started: { victim: Server; server: Server }) {
    this.folder = folder;
    this.secretFile = join(folder, 'secret');
    this.secrets = identity.secrets;
    this.socket = identity.socket;
    this.port = identity.port;
    this.victimWord = identity.victimWord;
    this.#victim = started.victim;
    this.#server = started.server;
  }

  static async start(program: string): Promise<HostSide> {
    const folder = await mkdtemp(join(tmpdir(), 'squash-outside-'));
    // Open to everybody: not the folder's own mode may be what keeps a sandbox's ids out.
    await chmod(folder, 0o755);
    const identity = await newIdentity();
    const [fileSecret = '', environmentSecret = '', memorySecret = ''] = identity.secrets;
    await writeFile(join(folder, 'secret'), `${fileSecret}\n`, { mode: 0o644 });
    await pastSmallPids();
    const victim = start('sh', ['-c', `echo serving; : ${identity.victimWord}; exec sleep 900`], {
      VICTIM_SECRET: environmentSecret,
      WORD: identity.victimWord,
    });
    // The shell becomes sleep; its command line then has no word, so the servers carry it.
    const server = start(program, ['serve', identity.socket, String(identity.port), memorySecret]);
    await Promise.all([serving(victim), serving(server)]);
    return new HostSide(folder, identity, { victim, server });
  }

  get victimPid(): number {
    if (this.#victim.pid === undefined) throw new Error('the victim did not start');
    return this.#victim.pid;
  }

  /** @returns what was harmed, empty when nothing was */
  async harm(): Promise<readonly string[]> {
    const found: string[] = [];
    if (this.#victim.exitCode !== null || this.#victim.signalCode !== null) found.push('the victim is dead');
    if (this.#server.exitCode !== null || this.#server.signalCode !== null)
      found.push('the host server is dead');
    if ((await readFile(this.secretFile, 'utf8')) !== `${this.secrets[0] ?? ''}\n`) {
      found.push('the secret file has changed');
    }
    if (hostname() !== this.#hostname) found.push('the machine has another name');
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([end(this.#victim), end(this.#server)]);
    await rm(this.folder, { recursive: true, force: true });
  }
}

interface Identity {
  readonly secrets: readonly string[];
  readonly socket: string;
  readonly port: number;
  readonly victimWord: string;
}

async function newIdentity(): Promise<Identity> {
  const word = (): string => randomBytes(8).toString('hex');
  return {
    secrets: [`file-secret-${word()}`, `environment-secret-${word()}`, `memory-secret-${word()}`],
    socket: `squash-attack-${word()}`,
    port: await freePort(),
    victimWord: `squash-attack-`,
  };
}

/** A sandbox numbers its own processes from 1, and whoever may signal one of those has signalled nobody outside. */
const insidePidMax = 10_000;

/** The host's numbers begin again at the small ones now and then: they are used up, so that the victim's is of nobody inside. */
async function pastSmallPids(): Promise<void> {
  // Where a part of the attempts is made, a part of the numbers is used inside.
  const least = Math.ceil(insidePidMax / Number(process.env['ATTEMPTS_EVERY'] ?? 1));
  const script = `pid=0; until [ "$pid" -ge ${least} ]; do : & pid=$!; wait "$pid"; done`;
  await promisify(execFile)('sh', ['-c', script]);
}

function start(program: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Server {
  return spawn(program, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', ...env },
  });
}

async function serving(server: Server): Promise<void> {
  for await (const line of createInterface({ input: server.stdout })) {
    if (line === 'serving') return;
  }
  throw new Error('a process outside ended before it served');
}

async function end(server: Server): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, 'exit');
  server.kill('SIGTERM');
  await ended;
}
