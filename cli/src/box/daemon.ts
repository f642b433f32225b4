/** The daemon of boxes as the commands have it. */
import {
  type DaemonPlaces,
  findBoxDaemon,
  hasBoxes,
  offersHostRoot,
  startBoxDaemon,
} from '@squash/box/daemon';
import { BoxRefusal } from '@squash/box/refusal';
import { userInfo } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DaemonInfo } from '@squash/contract/daemon';
import { Client } from '../client/client.ts';
import type { Call } from '../command.ts';
import { daemonInfo } from '../commands/daemon-info.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';

export interface BoxDaemon {
  readonly client: Client;
  readonly dataDir: string;
}

/** `start`: one that does not run is started. `list`: only where there may be boxes; else there is no answer. */
export type Wanted = 'start' | 'list';

type Named = Pick<Call, 'flags' | 'client'>;

/** Undefined only with `list`, where there is no box. */
async function boxDaemon(call: Named, wanted: Wanted): Promise<BoxDaemon | undefined> {
  if (call.flags.isSet('socket') || call.flags.isSet('url')) return await namedDaemon(call.client);
  const running = await runningDaemon();
  if (running !== undefined) return running;
  if (wanted === 'list' && !hasBoxes(ownPlaces())) return undefined;
  return await startDaemon();
}

/**
 * What is asked of a box daemon that may just be ending, or was killed and left its socket: where nobody answers it is started, and
 * asked again. A box that was made all the same, by one that broke off before it answered, runs nothing and so ends.
 */
export async function withBoxDaemon<T>(
  call: Named,
  wanted: 'start',
  ask: (daemon: BoxDaemon) => Promise<T>,
): Promise<T>;
export async function withBoxDaemon<T>(
  call: Named,
  wanted: Wanted,
  ask: (daemon: BoxDaemon) => Promise<T>,
): Promise<T | undefined>;
export async function withBoxDaemon<T>(
  call: Named,
  wanted: Wanted,
  ask: (daemon: BoxDaemon) => Promise<T>,
): Promise<T | undefined> {
  const daemon = await boxDaemon(call, wanted);
  if (daemon === undefined) return undefined;
  try {
    return await ask(daemon);
  } catch (failure) {
    const isGone = failure instanceof CliFailure && failure.exitCode === exitCodes.unreachable;
    if (!isGone || call.flags.isSet('socket') || call.flags.isSet('url')) throw failure;
    if (wanted === 'list' && !hasBoxes(ownPlaces())) return undefined;
    return await ask(await startDaemon());
  }
}

export async function runningDaemon(): Promise<BoxDaemon | undefined> {
  const found = await findBoxDaemon(ownPlaces(), askInfo);
  return found === undefined ? undefined : { client: clientOf(found.socket), dataDir: found.dataDir };
}

async function startDaemon(): Promise<BoxDaemon> {
  const { hostEntries, isBuilt, launchProgram } = await import('../local-host.ts');
  const { projectPath } = await import('../places.ts');
  const start = {
    program: hostEntries.serve,
    isBuilt: () => isBuilt('host/src/serve.ts'),
    ask: askInfo,
    launcher: launchProgram,
    caller: projectPath('cli/bin/squash.cjs'),
  };
  const found = await asCliFailure(() => startBoxDaemon(ownPlaces(), start));
  return { client: clientOf(found.socket), dataDir: found.dataDir };
}

/** Refusals of `@squash/box` in the command line's words. */
export async function asCliFailure<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (failure) {
    if (!(failure instanceof BoxRefusal)) throw failure;
    if (failure.code === 'usage') throw usageFailure(failure.message);
    if (failure.code === 'start_failed')
      throw new CliFailure('start_failed', failure.message, exitCodes.execFailed);
    throw new CliFailure('box_refused', failure.message, exitCodes.notRunnable);
  }
}

interface OwnUser {
  readonly name: string;
  readonly home: string;
  readonly shell: string;
  readonly uid: number;
}

let knownUser: OwnUser | undefined;

/** Who we are by the password database, for HOME is anybody's to set. */
export function ownUser(): OwnUser {
  return (knownUser ??= readUser());
}

function readUser(): OwnUser {
  const uid = process.geteuid?.() ?? -1;
  try {
    const { username, homedir, shell } = userInfo();
    return { name: username, home: homedir, shell: shell ?? '/bin/sh', uid };
  } catch {
    // A container's user may have no row in it.
    const { USER: name = `${uid}`, HOME: home = '/' } = process.env;
    return { name, home, shell: '/bin/sh', uid };
  }
}

function ownPlaces(): DaemonPlaces {
  const { home, uid } = ownUser();
  return { env: process.env, home, uid };
}

async function namedDaemon(client: Client): Promise<BoxDaemon> {
  if (client.address.kind !== 'unix')
    throw usageFailure('a box is of this machine: its daemon is named by --socket PATH');
  const info = await client.get<DaemonInfo>('/v1/info');
  if (!offersHostRoot(info))
    throw new CliFailure(
      'host_root_unavailable',
      'this daemon makes no boxes: start it with SQUASH_HOST_ROOT=1',
      exitCodes.execFailed,
    );
  return { client, dataDir: info.data_dir };
}

/** A daemon that wants a key, or is none of ours, has no boxes for us. */
async function askInfo(socket: string): Promise<DaemonInfo | undefined> {
  try {
    return await daemonInfo(clientOf(socket));
  } catch (failure) {
    if (failure instanceof CliFailure) return undefined;
    throw failure;
  }
}

/** A token is for daemons that are reached by others; this user's own socket asks for none. */
function clientOf(socket: string): Client {
  return new Client({ socket, mended: async () => await mended(socket) });
}

/** How long a daemon takes to notice that its launcher has ended, and to start again; and more on a loaded machine. */
const mendedMsMax = 30_000;
const mendedPollMs = 100;

/** Whoever asks next says what is still wrong. */
async function mended(socket: string): Promise<void> {
  for (const endMs = performance.now() + mendedMsMax; performance.now() < endMs; await sleep(mendedPollMs)) {
    const info = await askInfo(socket);
    if (info === undefined) await startDaemon();
    else if (!info.problems.some(({ code }) => code === 'launcher_unavailable')) return;
  }
}
