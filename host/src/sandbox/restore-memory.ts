/**
 * A microVM put back to a snapshot with memory: it goes on with the processes of then, on the disk of then.
 *
 * What a newcomer would get wrong: its disk comes with the memory, and is whole when the VM has started. So the row says nothing of it
 * before, and a daemon that finds it half done ends what runs and goes on with what was.
 */
import { isDeepStrictEqual } from 'node:util';
import { AppError } from '@squash/contract/errors';
import type { SnapshotRow } from '#store/rows.ts';
import type { SandboxChange } from '#store/sandboxes.ts';
import type { StartSpec } from '../drivers/driver.ts';
import type { SandboxEvent } from './event-port.ts';
import { checkMemory, dropMemory, memoryOf, type MemoryStart } from './fork-memory.ts';
import type { Sandbox } from './sandbox.ts';
import { heldMemory } from './snapshot-memory.ts';
import { startSpec } from './start-spec.ts';

/** Runs `body` with what it goes on from, before which nothing was ended. @throws unsupported_feature, vm_unsupported, invalid_request, layer_corrupt */
export async function withMemory(
  sandbox: Sandbox,
  snapshot: SnapshotRow,
  body: (start: MemoryStart) => Promise<void>,
): Promise<void> {
  const { row, world } = sandbox;
  checkMemory(sandbox);
  const { cpu, memoryMb, limits } = memoryOf(snapshot);
  const isAlike = cpu === row.cpu && memoryMb === row.memoryMb && isDeepStrictEqual(limits, row.limits);
  if (!isAlike)
    throw new AppError(
      'invalid_request',
      `Sandbox "${row.id}" has other limits than when snapshot "${snapshot.label}" was taken: make a new sandbox of it, which has those`,
    );
  const start = await heldMemory(sandbox, snapshot.label);
  try {
    const { layers } = snapshot;
    const spec = await world.layerLock.shared(() =>
      specOf(sandbox, start, { layers, activeSnapshot: start.base }),
    );
    await world.driver.checkSaved(spec);
    await body(start);
  } finally {
    await dropMemory(start);
  }
}

/** Call where what ran has ended. The change is committed when it goes on; until then the snapshot, which nobody removes in its turn, names the trees. */
export async function startOnMemory(
  sandbox: Sandbox,
  start: MemoryStart,
  { change, event }: { readonly change: SandboxChange; readonly event: SandboxEvent },
): Promise<void> {
  const { store, driver, layerLock } = sandbox.world;
  const instance = store.durably(() => store.sandboxes.nextInstance());
  const next = { ...change, trust: start.like.trust, instance };
  const spec = await layerLock.shared(() => specOf(sandbox, start, next));
  const running = await driver.start(spec, sandbox.removal.signal);
  sandbox.change(next, 'durably');
  sandbox.started(running, event);
}

async function specOf(sandbox: Sandbox, start: MemoryStart, change: SandboxChange): Promise<StartSpec> {
  const trees = await sandbox.trees(change);
  const row = { ...sandbox.row, trust: start.like.trust, ...change };
  return { ...startSpec(sandbox.world, row, { trees }), memory: start.files };
}
