/**
 * `squash stop`: ends the daemon of this machine with SIGTERM and waits until it is gone. Sandboxes and their
 * commands go on, unless `--all`.
 *
 * Which process is the daemon is what it says itself over its socket, and `/proc` says when that process was
 * started: a number that was given to another process meanwhile is recognised.
 */
import type { DaemonInfo } from '@squash/contract/daemon';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { askOffline } from '../local-host.ts';
import { printJson, printLine } from '../output/print.ts';
import { startTicks } from '../process-times.ts';
import { ownDaemon } from './daemon-info.ts';

/** The daemon finishes requests for up to 30 s; then it closes its database. */
const stopMsMax = 45_000;
const pollMs = 25;

interface StopAnswer {
  readonly ended: number;
}

export async function run(call: Call): Promise<number> {
  if (call.client.address.kind !== 'unix' && (call.flags.isSet('url') || process.env['SQUASH_API'])) {
    throw usageFailure('stop works on this machine, through the daemon’s socket');
  }
  const info = await ownDaemon(call.client);
  if (info !== undefined) await stopDaemon(info);
  const all = call.flags.isSet('all') ? await askOffline<StopAnswer>('stop') : undefined;
  if (call.json) printJson({ stopped: info?.pid ?? null, ended: all?.ended ?? null });
  else {
    printLine(info === undefined ? 'No daemon runs.' : `Stopped the daemon, pid ${info.pid}.`);
    if (all !== undefined) printLine(`Sandboxes ended: ${all.ended}. Their files stay.`);
  }
  return exitCodes.ok;
}

async function stopDaemon({ pid }: DaemonInfo): Promise<void> {
  const started = startTicks(pid);
  if (started === undefined)
    throw new CliFailure('stop_failed', `the daemon’s process ${pid} is not on this machine`);
  try {
    process.kill(pid, 'SIGTERM');
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
