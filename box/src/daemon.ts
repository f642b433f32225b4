/**
 * The daemon that boxes run under: one that runs already, of this user, and offers roots of the host; else the box daemon, which is started
 * when it is needed and ends by itself.
 *
 * Only Unix sockets that belong to this user are spoken to, and nothing is read from the directory the user stands in: what lies there
 * is what the box is to protect from.
 */
import type { ChildProcess } from 'node:child_process';
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { daemonCommand } from '@squash/base/daemon-command';
import { apiSocketPath, dataDirectory } from '@squash/contract/data-directory';
import type { DaemonInfo } from '@squash/contract/daemon';
import { namespaceProblem } from '@squash/contract/user-namespaces';
import { isDirectory } from './host-paths.ts';
import { readSetting } from './needs.ts';
import { BoxRefusal } from './refusal.ts';
import { dropStartWords, keepStartWords } from './start-words.ts';

type Variables = Readonly<Record<string, string | undefined>>;

export interface DaemonPlaces {
  readonly env: Variables;
  /** As the password database has it. */
  readonly home: string;
  /** Effective. */
  readonly uid: number;
}

export interface FoundDaemon {
  readonly socket: string;
  readonly dataDir: string;
}

/** `GET /v1/info` over a socket; undefined where nobody answers. */
export type AskInfo = (socket: string) => Promise<DaemonInfo | undefined>;

export interface DaemonStart {
  /** The daemon's first stage: what this Node is given. */
  readonly program: readonly string[];
  /** Whether what the first stage builds of the daemon is built. */
  readonly isBuilt: () => boolean;
  readonly ask: AskInfo;
  /** The program that makes namespaces. */
  readonly launcher: string;
  /** The command line's. */
  readonly caller: string;
}

const readyMsDefault = 60_000;
const pollMs = 5;
/** How long a box daemon without a box stays: the next command finds it warm. */
const idleExitSDefault = '15';
/** What a build or an installation of packages writes on a developer's machine; a service's sandboxes have less. */
const upperLimitMbDefault = '16384';
const lastWordsBytesMax = 65_536;
const lastLinesMax = 5;
/** A daemon that is just ending, or that its keeper starts again, has the directory for so long. */
const takenMsMax = 30_000;
const takenPollMs = 200;

/** What a daemon needs of our environment, and what a user may set for it. */
const daemonVariables = new Set([
  'PATH',
  'LANG',
  'TZ',
  'USER',
  'LOGNAME',
  'XDG_RUNTIME_DIR',
  'DBUS_SESSION_BUS_ADDRESS',
  'SQUASH_LOG_LEVEL',
  'SQUASH_LOG_FORMAT',
  'SQUASH_UPPER',
  'SQUASH_UPPER_LIMIT_MB',
  'SQUASH_OVERLAY',
  'SQUASH_IDS',
  'SQUASH_MEMORY_RESERVE_MB',
  'SQUASH_EGRESS_ALLOW_CIDRS',
  'SQUASH_EGRESS_RESOLVERS',
  'SQUASH_HOST_PORTS',
  'SQUASH_EGRESS_HOSTS',
  'SQUASH_IDLE_EXIT_S',
]);

export function boxDataDirectory({ env, home }: Pick<DaemonPlaces, 'env' | 'home'>): string {
  const named = env['SQUASH_BOX_DATA'];
  if (named !== undefined && named !== '') return resolve(named);
  const state = env['XDG_STATE_HOME'];
  // The XDG specification says that a relative value is to be ignored.
  const base = state?.startsWith('/') === true ? state : join(home, '.local/state');
  return join(base, 'squash/box');
}

export function boxSocket(places: Pick<DaemonPlaces, 'env' | 'home'>): string {
  return join(boxDataDirectory(places), apiSocketPath);
}

/** Undefined where none runs that a box can be had of. */
export async function findBoxDaemon(places: DaemonPlaces, ask: AskInfo): Promise<FoundDaemon | undefined> {
  for (const socket of sharedSockets(places)) {
    if (!isOwnSocket(socket, places.uid)) continue;
    const info = await ask(socket);
    if (info !== undefined && offersHostRoot(info)) return { socket, dataDir: info.data_dir };
  }
  const socket = boxSocket(places);
  return isOwnSocket(socket, places.uid) ? { socket, dataDir: boxDataDirectory(places) } : undefined;
}

/** Whether there may be boxes that a daemon has to be started for to be listed. */
export function hasBoxes(places: DaemonPlaces): boolean {
  try {
    return readdirSync(join(boxDataDirectory(places), 'sandboxes')).length > 0;
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'EACCES';
  }
}

/** Once it answers. @throws BoxRefusal `start_failed` with what the daemon said last */
export async function startBoxDaemon(places: DaemonPlaces, start: DaemonStart): Promise<FoundDaemon> {
  const dataDir = boxDataDirectory(places);
  const socket = boxSocket(places);
  makeOwnDirectory(dataDir, places.uid);
  makeOwnDirectory(join(dataDir, 'log'), places.uid);
  const readyMs = Number(places.env['SQUASH_READY_MS']) || readyMsDefault;
  // Here and not above, as `spawn` below: most calls find a daemon, and loading them takes longer than asking it.
  const { startLock } = await import('./start-lock.ts');
  // What squash-call has begun runs from its sources then. The next start is ours, and builds them.
  if (!start.isBuilt()) dropStartWords(dataDir);
  using lock = await startLock(join(dataDir, 'log/start.lock'), Math.ceil(readyMs / 1_000));
  if (lock === undefined)
    throw new BoxRefusal('start_failed', `another start of the box daemon does not end: ${dataDir}`);
  // Whoever had the lock before has started it.
  if (isOwnSocket(socket, places.uid) && (await start.ask(socket)) !== undefined) return { socket, dataDir };
  await launch(places, start, { dataDir, socket, readyMs });
  return { socket, dataDir };
}

export function offersHostRoot({ config }: Pick<DaemonInfo, 'config'>): boolean {
  return config.some(({ name, value }) => name === 'SQUASH_HOST_ROOT' && value === '1');
}

/** Of an ordinary daemon of this user, in the order in which the command line looks for one. */
function sharedSockets({ env, uid, home }: DaemonPlaces): readonly string[] {
  const named = env['SQUASH_SOCKET'] || unixAddress(env['SQUASH_API']);
  if (named) return [resolve(named)];
  const run = env['SQUASH_RUN'];
  if (run) return [resolve(run, 'api.sock')];
  const { path } = dataDirectory({ env, uid, home, isWritableDirectory });
  return [resolve(path, apiSocketPath)];
}

/** A daemon over TCP may be another machine's: its paths would be others. */
function unixAddress(text: string | undefined): string | undefined {
  return text?.startsWith('unix:') === true ? text.replace(/^unix:(\/\/)?/, '') : undefined;
}

function isWritableDirectory(path: string): boolean {
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    return isDirectory(path);
  } catch {
    // Missing, or not ours: both mean that the rule goes on to the next place.
    return false;
  }
}

/** Whoever may write the directory could put a socket of his own there. */
function isOwnSocket(path: string, uid: number): boolean {
  const socket = lstatSync(path, { throwIfNoEntry: false });
  const directory = lstatSync(dirname(path), { throwIfNoEntry: false });
  if (socket?.isSocket() !== true || directory === undefined) return false;
  return socket.uid === uid && directory.uid === uid && (directory.mode & 0o022) === 0;
}

function makeOwnDirectory(path: string, uid: number): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new BoxRefusal(
      'start_failed',
      `the box daemon's directory can't be made: ${(cause as Error).message}`,
    );
  }
  if (lstatSync(path).uid !== uid) throw new BoxRefusal('start_failed', `"${path}" belongs to another user`);
}

interface Launch {
  readonly dataDir: string;
  readonly socket: string;
  readonly readyMs: number;
}

async function launch(
  places: DaemonPlaces,
  start: DaemonStart,
  { dataDir, socket, readyMs }: Launch,
): Promise<void> {
  const log = join(dataDir, 'log/squashd.log');
  const deadline = performance.now() + takenMsMax;
  for (;;) {
    const said = await launchOnce(places, start, { dataDir, socket, readyMs, log });
    if (said === undefined) return;
    // Where a part of the last one was killed its keeper starts it again, and it may be the first.
    if (!said.isTaken || performance.now() > deadline)
      throw new BoxRefusal(
        'start_failed',
        `the box daemon did not start: ${said.text}; its log is "${log}"${remedyOf(said.text, start.launcher)}`,
      );
    await sleep(takenPollMs);
    if (isOwnSocket(socket, places.uid) && (await start.ask(socket)) !== undefined) return;
  }
}

/** Where the launcher could make no user namespace: what root does about it. */
function remedyOf(text: string, launcher: string): string {
  if (!/user namespace/.test(text)) return '';
  const { found, remedy } = namespaceProblem({ read: readSetting, launcher, said: text });
  return `\n${found}; to mend it:\n${remedy.join('\n')}`;
}

interface LastWords {
  readonly text: string;
  /** Another daemon works in the directory. */
  readonly isTaken: boolean;
}

/** Undefined when it answers. */
async function launchOnce(
  places: DaemonPlaces,
  start: DaemonStart,
  { dataDir, socket, readyMs, log }: Launch & { readonly log: string },
): Promise<LastWords | undefined> {
  const output = openSync(log, 'a', 0o600);
  const begin = fstatSync(output).size;
  const { spawn } = await import('node:child_process');
  const { program, words, env, isSecondStage } = daemonWords(places, start, dataDir);
  const child = spawn(program, words, {
    // The daemon reads `.env` where it is started: never the repository's.
    cwd: dataDir,
    env,
    detached: true,
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  const reason = await whyNotReady(child, { socket, readyMs, uid: places.uid, ask: start.ask });
  child.unref();
  if (reason === undefined) {
    const caller = [process.execPath, start.caller] as const;
    const kept = { caller, env: places.env, sockets: sharedSockets(places), daemonEnv: env };
    if (isSecondStage) keepStartWords(dataDir, { ...kept, words: [program, ...words] });
    return undefined;
  }
  child.kill('SIGTERM');
  return lastWords(log, begin, reason);
}

/** Undefined when it answers. */
async function whyNotReady(
  child: ChildProcess,
  {
    socket,
    readyMs,
    uid,
    ask,
  }: { readonly socket: string; readonly readyMs: number; readonly uid: number; readonly ask: AskInfo },
): Promise<string | undefined> {
  const end: { reason?: string } = {};
  child.once('error', (error) => {
    end.reason = error.message;
  });
  child.once('exit', (code, signal) => {
    end.reason = `it ended with ${signal ?? `code ${code}`}`;
  });
  const deadline = performance.now() + readyMs;
  while (performance.now() < deadline) {
    if (end.reason !== undefined) return end.reason;
    // The socket is there when the daemon is ready.
    if (isOwnSocket(socket, uid) && (await ask(socket)) !== undefined) return undefined;
    await sleep(pollMs);
  }
  return `it does not answer after ${readyMs / 1_000} s`;
}

interface DaemonWords {
  readonly program: string;
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly isSecondStage: boolean;
}

/**
 * Its first stage reads the settings, makes directories and builds programs. Where that is done and no `.env` adds to our variables, the
 * stage after it is started: a start of Node is saved.
 */
function daemonWords(places: DaemonPlaces, start: DaemonStart, dataDir: string): DaemonWords {
  const env = daemonEnvironment(places, dataDir);
  const isMade = existsSync(join(dataDir, 'squash.db')) && !existsSync(join(dataDir, '.env'));
  if (!isMade || !start.isBuilt())
    return { program: process.execPath, words: start.program, env, isSecondStage: false };
  const runDir = dirname(boxSocket(places));
  const hosts = env['SQUASH_EGRESS_HOSTS'];
  const command = daemonCommand({ dataDir, runDir, egressHostsFile: hosts && resolve(dataDir, hosts) });
  return {
    program: command.program,
    words: command.words.slice(1),
    env: { ...env, SQUASH_RUN: runDir, ...command.env },
    isSecondStage: true,
  };
}

function daemonEnvironment({ env, home, uid }: DaemonPlaces, dataDir: string): Record<string, string> {
  const kept = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && (daemonVariables.has(name) || name.startsWith('LC_'))
      ? [[name, value] as const]
      : [],
  );
  return {
    SQUASH_IDLE_EXIT_S: idleExitSDefault,
    // Who starts it says in a policy of his own which port it is.
    SQUASH_HOST_PORTS: 'boxes',
    SQUASH_UPPER_LIMIT_MB: upperLimitMbDefault,
    ...Object.fromEntries(kept),
    // Under ids of its own root's daemon could not open root's files.
    ...(uid === 0 && { SQUASH_IDS: 'own' }),
    HOME: home,
    SQUASH_DATA: dataDir,
    SQUASH_HOST_ROOT: '1',
    SQUASH_PORT: 'off',
  };
}

/** The last lines of what it wrote since it was started; of a line of the log the error alone. */
function lastWords(log: string, begin: number, reason: string): LastWords {
  const file = openSync(log, 'r');
  const size = fstatSync(file).size;
  const buffer = Buffer.alloc(Math.min(lastWordsBytesMax, Math.max(0, size - begin)));
  readSync(file, buffer, 0, buffer.length, size - buffer.length);
  closeSync(file);
  const lines = buffer.toString('utf8').trimEnd().split('\n');
  const words = lines.slice(-lastLinesMax).flatMap((line) => sentenceOf(line));
  const isTaken = lines.some((line) => line.includes('data_locked'));
  return { text: words.length === 0 ? reason : words.join('; '), isTaken };
}

function sentenceOf(line: string): readonly string[] {
  try {
    const entry: unknown = JSON.parse(line);
    if (typeof entry !== 'object' || entry === null || !('error' in entry)) return [];
    return [String(entry.error)];
  } catch {
    // A line of text, as the first stage writes it.
    return line.trim() === '' ? [] : [line.replace(/^squash: /, '')];
  }
}
