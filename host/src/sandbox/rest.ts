/**
 * Putting a sandbox to rest, and ending that. Each runs in the mailbox.
 *
 * The row says what is wanted before it is done: a daemon that finds a paused sandbox holds it still again, and one that
 * finds a stopped one ends what is left of it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '@squash/contract/errors';
import { faultPoint } from '#sandbox/fault.ts';
import { keepPaths } from './path-trace.ts';
import type { Sandbox } from './sandbox.ts';
import { takeOver } from './take-over.ts';
import { bringMissing } from './trees.ts';

/** A command that is being started has its answer within this time, or is no reason to wait. */
const startsSettleMs = 5_000;
const startsLookMs = 5;

const resumed = { type: 'sandbox.resumed' } as const;

/** @param wakes the first use ends it. @throws sandbox_not_ready, launch_failed */
export async function pause(sandbox: Sandbox, wakes: boolean): Promise<void> {
  if (isResting(sandbox, wakes)) return;
  const { world, row } = sandbox;
  await sandbox.whileFrozen(async () => {
    await startsSettled(sandbox, 'pause');
    checkReady(sandbox);
    sandbox.change({ rest: { kind: 'paused', wakes } }, 'transaction', {
      type: 'sandbox.paused',
      data: { wakes },
    });
    faultPoint('pause.committed');
    try {
      await world.driver.freeze(row.id);
    } catch (error) {
      sandbox.change({ rest: null }, 'pressing', resumed);
      throw error;
    }
    sandbox.apply({ type: 'paused', wakes });
  });
}

/** Ends all processes; files and snapshots stay. @throws as `pause` */
export async function stopProcesses(sandbox: Sandbox, wakes: boolean): Promise<void> {
  const { state } = sandbox;
  if (state.phase === 'stopped' && isResting(sandbox, wakes)) return;
  if (state.phase !== 'paused') checkReady(sandbox);
  sandbox.change({ rest: { kind: 'stopped', wakes } }, 'transaction', {
    type: 'sandbox.stopped',
    data: { wakes },
  });
  faultPoint('stop.committed');
  try {
    await keepPaths(sandbox);
    await sandbox.stop('stopped');
  } catch (error) {
    sandbox.failed(error);
    throw error;
  }
  sandbox.apply({ type: 'stopped', wakes });
  await sandbox.usage.settle();
}

/** Nothing where it does not rest. @throws host_full, disk_full, launch_failed, layer_corrupt */
export async function goOn(sandbox: Sandbox): Promise<void> {
  const { state, world, row } = sandbox;
  if (state.phase !== 'paused' && state.phase !== 'stopped') return;
  const renewal = renewalOf(sandbox);
  if (state.phase === 'paused') {
    await world.driver.thaw(row.id);
    faultPoint('resume.thawed');
    // It runs already: on a full disk, too, the row has to say so.
    sandbox.change({ rest: null, ...renewal }, 'pressing', resumed);
    sandbox.activity.resumed();
    sandbox.apply({ type: 'resumed' });
    const { unheard } = sandbox;
    if (unheard !== undefined) await takeOver(sandbox, unheard);
    return;
  }
  world.checkStart(row);
  await bringMissing(sandbox, row.layers);
  sandbox.apply({ type: 'replacing', reason: 'stopped' });
  try {
    await world.starts[row.backend].run(() =>
      sandbox.start({ rest: null, ...renewal }, 'transaction', resumed),
    );
    sandbox.activity.resumed();
  } catch (error) {
    await world.driver.stop(row.id);
    sandbox.change({ rest: row.rest }, 'pressing');
    sandbox.apply({ type: 'stopped', wakes: state.wakes });
    throw error;
  }
}

/** A lifetime that was over when it was put to rest begins again. */
function renewalOf(sandbox: Sandbox): { readonly lifetimeFromMs?: number } {
  const leftMs = sandbox.activity.lifetimeLeftMs(sandbox.row);
  if (leftMs === undefined || leftMs > 0) return {};
  sandbox.activity.renew();
  return { lifetimeFromMs: sandbox.nowMs() };
}

/** Whoever asks for the rest of one that rests by itself keeps it from waking. */
function isResting(sandbox: Sandbox, wakes: boolean): boolean {
  const { state, row } = sandbox;
  if (state.phase !== 'paused' && state.phase !== 'stopped') return false;
  if (state.wakes && !wakes && row.rest !== null) {
    sandbox.change({ rest: { ...row.rest, wakes } });
    sandbox.apply(state.phase === 'paused' ? { type: 'paused', wakes } : { type: 'stopped', wakes });
  }
  return true;
}

function checkReady({ state, row }: Sandbox): void {
  if (state.phase === 'ready') return;
  throw new AppError('sandbox_not_ready', `Cannot put sandbox "${row.id}" to rest: it is ${state.phase}`);
}

/** A start that is stopped half-way would take PID 1 for broken. New ones wait already. */
export async function startsSettled(sandbox: Sandbox, what: 'pause' | 'fork' | 'snapshot'): Promise<void> {
  const isSettled = (): boolean =>
    [...sandbox.runs.values()].every((run) => run.exec !== undefined || run.end !== undefined);
  for (let waitedMs = 0; !isSettled(); waitedMs += startsLookMs) {
    if (waitedMs >= startsSettleMs)
      throw new AppError(
        'sandbox_busy',
        `Cannot ${what} sandbox "${sandbox.row.id}": a command is being started`,
      );
    await sleep(startsLookMs);
  }
}
