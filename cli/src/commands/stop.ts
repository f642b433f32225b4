/**
 * `squash stop`: ends the daemon of this machine with SIGTERM and waits until it is gone. Sandboxes and their
 * commands go on, unless `--all`.
 *
 * Which process is the daemon is what it says itself over its socket, and `/proc` says when that process was
 * started: a number that was given to another process meanwhile is recognised.
 */
import { spawnSync } from 'node:child_process';
import { lstatSync } from 'node:fs';
import type { DaemonInfo } from '@squash/contract/daemon';
import { type Address, localDataDirectory } from '../client/address.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, Failure, usageFailure } from '../failure.ts';
import { askOffline } from '../local-host.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { startTicks } from '../process-times.ts';
import { unsavedOf } from '../unsaved.ts';
import { ownDaemon } from './daemon-info.ts';

/** The daemon finishes requests for up to 30 s, and in ephemeral mode it saves every sandbox; then it closes its database. */
const stopMsMax = 90_000;
const pollMs = 25;
/** Sandboxes that were not saved, for people. */
const shownMax = 20;

interface StopAnswer {
  readonly ended: number;
}

export async function run(call: Call): Promise<number> {
  if (call.client.address.kind !== 'unix' && (call.flags.isSet('url') || process.env['SQUASH_API'])) {
    throw usageFailure(
      'stop works on this machine, through the daemon’s socket: leave out --url and SQUASH_API',
    );
  }
  const info = await ownDaemon(call.client);
  const owner = ownerOf(call.client.address);
  if (info !== undefined) await stopDaemon(info, owner);
  const unsaved = info === undefined ? [] : unsavedOf(info, owner);
  const all = call.flags.isSet('all') ? await askOffline<StopAnswer>('stop') : undefined;
  if (call.json) printJson({ stopped: info?.pid ?? null, ended: all?.ended ?? null, unsaved });
  else {
    printLine(info === undefined ? 'No daemon runs.' : `Stopped the daemon, pid ${info.pid}.`);
    for (const { id, why } of unsaved.slice(0, shownMax)) printLine(visible(`Not saved: ${id}: ${why}`));
    if (unsaved.length > shownMax) printLine(`And ${unsaved.length - shownMax} more: --json has all.`);
    if (all !== undefined) printLine(`Sandboxes ended: ${all.ended}. Their files stay.`);
  }
  if (unsaved.length === 0) return exitCodes.ok;
  throw new CliFailure(
    'not_saved',
    `the bucket has not all files of ${unsaved.length === 1 ? 'a sandbox' : `${unsaved.length} sandboxes`}: kept here for the next daemon of this data directory`,
  );
}

/** Whose the daemon is: the owner of its socket, or of the data directory where the port was only guessed. */
function ownerOf(address: Address): number | undefined {
  // Not followed: a link in a hostile directory may lead to anybody's socket, but is its maker's own.
  const path = address.kind === 'unix' ? address.path : localDataDirectory();
  return lstatSync(path, { throwIfNoEntry: false })?.uid;
}

/**
 * Whoever answers names the process, and root may end any: so the signal is sent with the owner's rights, and what is
 * not his is refused by the kernel, whatever process has the number by then.
 */
function signalAs(owner: number | undefined, pid: number): void {
  if (process.geteuid?.() !== 0) return void process.kill(pid, 'SIGTERM');
  // Root's daemon gives up root's id, and its directories with it.
  if (owner === undefined || owner === 0)
    throw new Failure('no_owner', 'its directories belong to nobody that a daemon runs as');
  const { status, stderr } = spawnSync('/bin/sh', ['-c', 'kill -s TERM "$0"', String(pid)], {
    uid: owner,
    gid: owner,
    encoding: 'utf8',
  });
  if (status !== 0)
    throw new Failure(
      'not_signalled',
      `not with the rights of uid ${owner}, who owns the daemon: ${stderr.trim()}`,
    );
}

async function stopDaemon({ pid }: DaemonInfo, owner: number | undefined): Promise<void> {
  const started = startTicks(pid);
  if (started === undefined || pid <= 1)
    throw new CliFailure('stop_failed', `the daemon’s process ${pid} is not on this machine`);
  try {
    signalAs(owner, pid);
  } catch (cause) {
    throw new CliFailure('stop_failed', `can't end the daemon, pid ${pid}: ${(cause as Error).message}`);
  }
  const deadline = performance.now() + stopMsMax;
  while (startTicks(pid) === started) {
    if (performance.now() > deadline) {
      throw new CliFailure('stop_failed', `the daemon, pid ${pid}, still runs after ${stopMsMax / 1000} s`);
    }
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}
