/** Taking a sandbox away, for good. */
import { AppError } from '@squash/contract/errors';
import { faultPoint } from '#sandbox/fault.ts';
import type { Sandbox } from './sandbox.ts';

/**
 * Ends every process and removes row, upper and directory. Also the undo of a create and what recovery calls for
 * a sandbox that was half made or half removed: every step may have been done already. Call from the mailbox.
 */
export async function removeSandbox(sandbox: Sandbox): Promise<void> {
  const { world, row } = sandbox;
  const { driver, files, network, store } = world;
  sandbox.apply({ type: 'destroying' });
  const isMarked = row.phase === 'creating' || mark(sandbox);
  faultPoint('destroy.marked');
  try {
    await Promise.all([
      driver.stop(row.id, isMarked).then(() => faultPoint('destroy.stopped')),
      // What a power cut leaves of the files has a row that says what it is.
      store.synced().then(() => files.discard(row.id)),
      network.forget(row.id),
    ]);
  } finally {
    // Whoever waits for a command hears of its end, also where a process of the sandbox does not die in time.
    await sandbox.settleRuns('destroyed');
  }
  faultPoint('destroy.trashed');
  await deleteRow(sandbox, row.phase !== 'creating');
  faultPoint('destroy.deleted');
  // Nobody waits for the room: it comes back behind the answer, or with the next daemon.
  void files.clear(row.id);
  sandbox.close();
  sandbox.mailbox.close(removedError(sandbox));
}

/** Whoever waits for something of it is told this. */
export function removedError({ row }: Sandbox): AppError {
  return new AppError('sandbox_not_found', `Cannot use sandbox "${row.id}": it was removed`);
}

/**
 * On a disk so full that not even the reserve had room, its files go unmarked, because they make the room: a crash in
 * between leaves a sandbox that can't start for want of its upper, to be removed again.
 */
function mark(sandbox: Sandbox): boolean {
  try {
    sandbox.change({ phase: 'destroying', pending: null }, 'pressing');
    return true;
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    sandbox.world.log.warn('destroy.unmarked', { sandbox: sandbox.row.id, error });
    return false;
  }
}

/** `wasThere`: somebody was told of its creation. */
async function deleteRow({ world, row }: Sandbox, wasThere: boolean): Promise<void> {
  const { store, files, events } = world;
  const aside = files.asideOf(row.id);
  const commit = (): void => {
    store.sandboxes.delete(row.id);
    if (wasThere)
      events.tell(row, { type: 'sandbox.destroyed', ...(aside !== undefined && { data: { aside } }) });
  };
  try {
    store.pressing(commit);
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    // Its files make the room.
    await files.clear(row.id);
    store.pressing(commit);
  }
}

function isDiskFull(error: unknown): boolean {
  return error instanceof AppError && error.code === 'disk_full';
}
