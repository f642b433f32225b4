/**
 * For tests: a real squash-init outside any sandbox, and a client of it. Nothing else imports this.
 *
 * Node can't hand a listening socket to a child, so perl (part of every Debian) binds it and becomes squash-init.
 * Disposing ends squash-init and with it every descendant, then waits until it is gone.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { BugError } from '@squash/base/bug';
import { GuestClient } from '../../host/src/guest/client.ts';
import type { GuestExec, GuestExecSpec, GuestOutcome } from '../../host/src/guest/guest.ts';

const program =
  process.env['SQUASH_INIT_PROGRAM'] ??
  new URL(`../../native/build/${machine()}/squash-init`, import.meta.url).pathname;

/** Why tests with a real PID 1 can't run here, or false: for a test's `skip`. */
export const guestIsMissing = existsSync(program)
  ? false
  : `${program} is not built: make -C native squash-init`;

const bindAndBecome = `
  use Socket; $^F = 1000;
  socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die; bind($s, sockaddr_un(shift)) or die; listen($s, 512) or die;
  syswrite(STDOUT, "ready"); open(STDOUT, ">", "/dev/null");
  exec(shift, "--listen-fd", fileno($s));
`;

export interface RealGuestOptions {
  /** As PID 1 of a pid namespace of its own; needs root. */
  readonly isPidOne?: boolean;
  /** A file in the place of `/proc/sys/fs/suid_dumpable`, which all of the machine has once. Needs `isPidOne`. */
  readonly suidDumpable?: string;
  /** Descriptors that squash-init may have. */
  readonly openFilesMax?: number;
  readonly answerDeadlineMs?: number;
}

export class RealGuest implements AsyncDisposable {
  readonly client: GuestClient;
  readonly directory: string;
  readonly #process: ChildProcess;
  readonly #isPidOne: boolean;

  private constructor(process: ChildProcess, directory: string, options: RealGuestOptions) {
    this.#process = process;
    this.directory = directory;
    this.#isPidOne = options.isPidOne === true;
    this.client = new GuestClient({
      connect: () => this.connect(),
      ...(options.answerDeadlineMs === undefined ? {} : { answerDeadlineMs: options.answerDeadlineMs }),
    });
  }

  static async start(options: RealGuestOptions = {}): Promise<RealGuest> {
    const directory = await mkdtemp(join(tmpdir(), 'squash-guest-'));
    const command = ['perl', '-e', bindAndBecome, join(directory, 'init.sock'), program];
    if (options.openFilesMax !== undefined) {
      command.unshift('sh', '-c', `ulimit -n ${options.openFilesMax}; exec "$@"`, 'sh');
    }
    if (options.suidDumpable !== undefined) {
      const cover = `mount --bind '${options.suidDumpable}' /proc/sys/fs/suid_dumpable`;
      command.unshift('sh', '-c', `${cover} && exec "$@"`, 'sh');
    }
    if (options.isPidOne === true)
      command.unshift('unshare', '--pid', '--fork', '--mount-proc', '--kill-child');
    // A test that is killed disposes of nothing.
    const [file, ...args] = ['setpriv', '--pdeathsig', 'SIGKILL', '--', ...command];
    if (file === undefined) throw new BugError('there is nothing to start');
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    return new RealGuest(child, directory, options);
  }

  /** Of squash-init; of unshare where it is PID 1. */
  get pid(): number {
    if (this.#process.pid === undefined) throw new BugError('squash-init did not start');
    return this.#process.pid;
  }

  async connect(): Promise<Duplex> {
    const socket = createConnection({ path: join(this.directory, 'init.sock'), allowHalfOpen: true });
    await once(socket, 'connect');
    return socket;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const gone = once(this.#process, 'exit');
      this.#process.kill(this.#isPidOne ? 'SIGKILL' : 'SIGTERM');
      await gone;
    }
    await rm(this.directory, { recursive: true, force: true });
  }
}

let serial = 0;

/** A command with what tests mostly want. */
export function specOf(
  argv: readonly (string | Uint8Array)[],
  change: Partial<GuestExecSpec> = {},
): GuestExecSpec {
  serial += 1;
  return {
    execId: `exec-${serial}`,
    argv,
    env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
    cwd: '/',
    uid: process.getuid?.() ?? 0,
    gid: process.getgid?.() ?? 0,
    tty: undefined,
    stdin: 'none',
    timeoutMs: undefined,
    openFilesMax: 1024,
    ...change,
  };
}

export interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly outcome: GuestOutcome;
}

/** Reads to the end, acknowledging everything, and releases. */
export async function drain(exec: GuestExec, stored = { stdout: 0, stderr: 0 }): Promise<Ran> {
  const chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  const offsets = { ...stored };
  for await (const event of exec.events()) {
    if (event.type === 'exit') {
      exec.release();
      return {
        stdout: Buffer.concat(chunks.stdout).toString('latin1'),
        stderr: Buffer.concat(chunks.stderr).toString('latin1'),
        outcome: event.outcome,
      };
    }
    if (event.type === 'stopped') continue;
    chunks[event.stream].push(event.data);
    offsets[event.stream] += event.data.length;
    exec.ack(offsets.stdout, offsets.stderr);
  }
  throw new BugError('the events ended without an exit');
}

function machine(): string {
  return process.arch === 'arm64' ? 'aarch64' : 'x86_64';
}
