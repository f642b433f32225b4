/** Taking over a sandbox that runs: its PID 1 is asked what it knows, and its commands are followed at their stored offsets. */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { errorText } from '@squash/base/bug';
import type { ExecRow } from '#store/rows.ts';
import type { RunningSandbox } from '../drivers/driver.ts';
import type { Guest, GuestExecEntry } from '../guest/guest.ts';
import { runOf } from './commands.ts';
import { ensureMounts } from './mounts.ts';
import type { Sandbox } from './sandbox.ts';

/** False where PID 1 does not answer as it should: then the sandbox is started anew. */
export async function takeOver(sandbox: Sandbox, running: RunningSandbox): Promise<boolean> {
  const { world, row } = sandbox;
  const unfinished = world.store.read(() => world.store.execs.unfinished(row.id));
  try {
    const guest = world.guestOf(running);
    const inGuest = await inTime(guest.list());
    await ensureMounts(sandbox, running);
    sandbox.started(running, undefined, await world.driver.stats(row.id));
    // The last daemon may have died before what it had committed was on the disk.
    sandbox.syncs();
    for (const exec of unfinished) follow(sandbox, exec);
    const rows = new Set(unfinished.map((exec) => exec.execId));
    for (const entry of inGuest) {
      // Nobody waits for it: a hostile PID 1 may take its time.
      if (!rows.has(entry.execId)) void forget(sandbox, guest, entry);
    }
    return true;
  } catch (error) {
    world.log.guest(row.id).warn('recover.guest', { error: errorText(error) });
    if (sandbox.state.phase === 'ready') sandbox.guestBroken(errorText(error));
    return sandbox.state.phase !== 'creating';
  }
}

/** A hostile PID 1 sends an entry of its list now and then, and the daemon's start waits for the whole of it. @throws guest_failed */
async function inTime<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new AppError('guest_failed', 'PID 1 took too long to say what runs')),
    limits.takeOverMs,
  );
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Its end is stored and the daemon died before it said so; or hostile code made it up. */
async function forget(sandbox: Sandbox, guest: Guest, entry: GuestExecEntry): Promise<void> {
  const { store, log } = sandbox.world;
  const seq = Number(/^\d+-(\d+)$/.exec(entry.execId)?.[1] ?? 0);
  const row = store.read(() => store.execs.get(sandbox.row.id, seq));
  if (entry.running || row?.execId !== entry.execId) return;
  try {
    const exec = await guest.attach(entry.execId, { stdout: row.stdoutBytes, stderr: row.stderrBytes });
    exec.release();
    exec.close();
  } catch (error) {
    // It only takes a place in the guest's table until PID 1 ends.
    log.guest(sandbox.row.id).warn('recover.forget', { seq, error: errorText(error) });
  }
}

function follow(sandbox: Sandbox, row: ExecRow): void {
  const run = runOf(sandbox, row);
  sandbox.runs.set(row.seq, run);
  run.resume();
}
