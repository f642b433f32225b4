/**
 * What a microVM that does not run has written: only a guest's kernel reads its disk, so one is started for it, in which no command runs
 * and to which nothing of the host is attached. To everybody else it is stopped meanwhile, and a daemon that dies in between finds one that is to end.
 */
import type { Sandbox } from './sandbox.ts';
import { startSpec } from './start-spec.ts';
import { bringMissing } from './trees.ts';

export function isUnreadable({ row, state }: Sandbox): boolean {
  return row.backend === 'vm' && (state.phase === 'stopped' || state.phase === 'failed');
}

/** Ends the reading for a client: with the sandbox, or for one that does not run with the daemon, whose end would wait for a boot. */
export function readGivesUp(sandbox: Sandbox): AbortSignal {
  const { signal } = sandbox.removal;
  return isUnreadable(sandbox) ? AbortSignal.any([signal, sandbox.world.ending.signal]) : signal;
}

/** Call in the sandbox's turn. Of any other sandbox just `read`. @throws host_full, layer_corrupt, vm_unavailable, launch_failed, what `read` does */
export async function whileReadable<T>(
  sandbox: Sandbox,
  read: () => Promise<T>,
  giveUp = readGivesUp(sandbox),
): Promise<T> {
  if (!isUnreadable(sandbox)) return await read();
  const { row, world } = sandbox;
  const { driver, layerLock, store } = world;
  world.checkStart(row);
  await bringMissing(sandbox, row.layers);
  const spec = await layerLock.shared(async () => {
    const instance = store.transaction(() => store.sandboxes.nextInstance());
    return {
      ...startSpec(world, row, { trees: await sandbox.trees({}) }),
      mounts: [],
      instance,
      isRead: true,
    };
  });
  world.readers.add(row.id);
  await world.starts.vm
    .run(() => driver.start(spec, giveUp))
    .finally(() => void world.readers.delete(row.id));
  try {
    return await read();
  } finally {
    await driver.stop(row.id);
  }
}
