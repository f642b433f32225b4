/**
 * A command line that stands by: it has loaded what `box run` needs, and listed the home, and waits until `native/call` hands it a
 * call, with the caller's descriptors, directory and environment. It serves one call, as any command line does, and starts the next one.
 *
 * Whoever may speak to it is this user, who could start it as well: it takes no call from a process that differs in ids, groups or
 * namespaces. It ends with the daemon, or when nobody came for so long.
 */
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { agentNames } from '@squash/box/agent-names';
import { boxDataDirectory } from '@squash/box/daemon';
import { canonical } from '@squash/box/host-paths';
import { findCommand } from '../command-table.ts';
import type { Client } from '../client/client.ts';
import { nativePath, projectPath } from '../places.ts';
import { standFor } from '../terminal/suspend.ts';
import { ownUser } from './daemon.ts';

/** Set by `native/call`, which alone hands over calls; `off` is its user's. */
const mark = 'SQUASH_STANDBY';
const callProgram = nativePath('squash-call');
const idleMs = 15_000;
/** Before the exit code, and where nothing was done. */
const [ended, refused] = ['x', 'n'];

/** The function of `native/node/take_call.c`. */
type TakeCall = (
  ...words: readonly [directory: string, daemonSocket: string, program: string, idleMs: number]
) => string | undefined;

/** For the next call, where this one came by `native/call`. One that finds another standing by ends by itself. */
export async function startStandby({ address }: Client): Promise<void> {
  if (process.env[mark] !== 'on' || address.kind !== 'unix') return;
  const { home } = ownUser();
  const { spawn } = await import('node:child_process');
  const directory = boxDataDirectory({ env: process.env, home });
  const words = ['--bare', process.execPath, projectPath('cli/bin/standby.cjs'), directory, address.path];
  const start = (): void => {
    try {
      const child = spawn(callProgram, words, { cwd: '/', env: {}, detached: true, stdio: 'ignore' });
      child.on('error', () => {});
      child.unref();
    } catch {
      // Out of memory, for example: the next call starts as this one did.
    }
  };
  // Who called hears the end first.
  if (hasCaller) process.once('exit', start);
  else start();
}

/** Somebody waits for our exit code. */
let hasCaller = false;

/** @returns the call's words; undefined where there is none to run */
export async function standBy(
  [directory = '', socket = '']: readonly string[],
  isCurrent: () => boolean,
): Promise<readonly string[] | undefined> {
  await Promise.all([findCommand(['box', 'run'])?.spec.load(), import('node:child_process')]);
  agentNames(canonical(ownUser().home) ?? '/');
  const { takeCall } = loadAddon();
  const text = takeCall(directory, socket, projectPath('cli/bin/squash.cjs'), idleMs);
  if (text === undefined) return undefined;
  const [head = '', ...strings] = text.split('\0');
  const [connection = -1, caller = -1, count = 0] = head.split(' ').map(Number);
  if (!isCurrent() || !isInDirectory()) {
    // The program has changed in the meantime, or the directory is gone: the caller starts the new one, which says so.
    writeSync(connection, `${refused}\0`);
    return undefined;
  }
  becomeCaller(strings.slice(count));
  watch(connection, caller);
  return strings.slice(0, count);
}

function loadAddon(): { readonly takeCall: TakeCall } {
  const loaded: { exports: unknown } = { exports: {} };
  process.dlopen(loaded, nativePath('take-call.node'));
  return { takeCall: loaded.exports as TakeCall };
}

/** Node forgets the directory that it remembers. */
function isInDirectory(): boolean {
  try {
    process.chdir('.');
    return true;
  } catch {
    // Somebody removed it.
    return false;
  }
}

/** Descriptors, directory and mask are the caller's already. */
function becomeCaller(environment: readonly string[]): void {
  for (const name of Object.keys(process.env)) delete process.env[name];
  for (const entry of environment) {
    const end = entry.indexOf('=');
    if (end > 0) process.env[entry.slice(0, end)] = entry.slice(end + 1);
  }
  process.env[mark] = 'on';
}

/** The caller learns how we end; when it was killed, so are we: nothing of ours may outlive it. */
function watch(connection: number, caller: number): void {
  hasCaller = true;
  const socket = new Socket({ fd: connection });
  const end = (): void => void process.kill(process.pid, 'SIGKILL');
  socket
    .on('error', () => {})
    .once('end', end)
    .once('close', end);
  socket.resume().unref();
  standFor(caller);
  process.once('exit', (code) => {
    try {
      writeSync(connection, Buffer.from([ended.charCodeAt(0), code]));
    } catch {
      // The caller has just gone: nobody is left who wants to know.
    }
  });
}
