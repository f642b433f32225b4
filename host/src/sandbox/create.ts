/**
 * Making a sandbox. `remove.ts` takes one away.
 *
 * Create writes its row (`creating`) before its first directory, destroy marks the row (`destroying`) before it
 * ends anything and deletes it last. So after a crash every directory has a row that says what it is: half a
 * create is undone, half a destroy is completed, and a directory without a row is none of ours to remove (but see recover.ts
 * for a cut of the machine's power).
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CreateRequest } from '@squash/contract/sandbox';
import { faultPoint } from '#sandbox/fault.ts';
import type { LayerRef, SandboxRow } from '#store/rows.ts';
import { adoptFiles, type Saved } from './adopt.ts';
import { draftRow } from './draft.ts';
import type { SandboxEvent } from './event-port.ts';
import { type CompiledRoot, hostRootHere } from './host-root.ts';
import { type Forking, forkFiles } from './fork.ts';
import { dropMemory } from './fork-memory.ts';
import { checkPrograms } from './compatible.ts';
import { checkMounts } from './mounts.ts';
import { removeSandbox } from './remove.ts';
import { opensAny } from './rules.ts';
import { Sandbox } from './sandbox.ts';
import { startSpec } from './start-spec.ts';
import { stackOrder } from './stacking.ts';
import { bringMissing, checkLayerCount } from './trees.ts';
import type { World } from './world.ts';

/**
 * @param register called once the row exists, so that the sandbox can be seen while it starts
 * @throws module_not_found, layer_corrupt, limits_unenforceable, invalid_request, disk_full, launch_failed
 */
export async function createSandbox(
  world: World,
  request: CreateRequest,
  register: (sandbox: Sandbox) => void,
): Promise<Sandbox> {
  const modules = [...new Set(request.layers)];
  checkLayerCount(modules.length);
  const host = hostRootHere(world, request.native?.hostRoot, request.native?.onTimeout);
  const draft = draftRow(world, request, host);
  const made = await world.layerLock.shared(async () => {
    const layers = await Promise.all(
      modules.map(
        async (module): Promise<LayerRef> => ({ module, digest: await world.layers.ensureModule(module) }),
      ),
    );
    checkPrograms(world, layers);
    faultPoint('create.layers');
    const trees = stackOrder(layers).map((layer) => layer.digest);
    const trust = (await world.network.trustLayer(trees)) ?? null;
    const sandbox = insert(world, { ...draft, layers, trust }, request);
    // Still under the lock: who collects unused trees asks the registered sandboxes what they use.
    register(sandbox);
    return sandbox;
  });
  await made.mailbox.post(() => bringUp(made, request, host.compiled));
  world.counters.created += 1;
  return made;
}

/**
 * The same from another sandbox's files.
 * @param inTurn runs what needs the source in its turn
 */
export async function createFork(
  forking: Forking,
  inTurn: <T>(body: () => Promise<T>) => Promise<T>,
  register: (sandbox: Sandbox) => void,
): Promise<Sandbox> {
  const { made, memory } = await inTurn(() => forkFiles(forking, register));
  try {
    made.goesOnFrom = memory;
    await made.mailbox.post(() => bringUp(made, forking.request));
  } finally {
    made.goesOnFrom = undefined;
    if (memory !== undefined) await dropMemory(memory);
  }
  forking.world.counters.created += 1;
  return made;
}

/** The same from files that the bucket has of an earlier one of its id. */
export async function createSaved(
  making: { readonly world: World; readonly request: CreateRequest },
  saved: Saved,
  register: (sandbox: Sandbox) => void,
): Promise<Sandbox> {
  const made = await adoptFiles(making, saved, register);
  await made.mailbox.post(() => bringUp(made, making.request));
  making.world.counters.created += 1;
  return made;
}

function insert(world: World, draft: SandboxRow, { native }: CreateRequest): Sandbox {
  const { store } = world;
  // Refuses names that can't be stacked while nothing exists yet.
  stackOrder(draft.layers);
  checkMounts(world, draft.mounts, draft.mounts);
  // The first one's is on the disk before its directory: see `openState`.
  const row = store[store.sandboxes.wasUsed() ? 'transaction' : 'durably'](() => {
    const hostLabel = store.sandboxes.freeHostLabel(draft.id);
    const numbered = { ...draft, hostLabel, instance: store.sandboxes.nextInstance() };
    store.sandboxes.insert(numbered);
    if (native?.once !== undefined) {
      store.idempotency.add(native.once, { sandbox: numbered.id, seq: null }, world.clock.wallMs());
    }
    return numbered;
  });
  faultPoint('create.inserted');
  return new Sandbox(world, row, []);
}

async function bringUp(
  sandbox: Sandbox,
  { ownSecrets }: CreateRequest,
  compiled?: CompiledRoot,
): Promise<void> {
  const { world, row } = sandbox;
  try {
    world.files.make(row.id);
    faultPoint('create.directory');
    await world.network.keepSecrets(row.id, ownSecrets);
    await Promise.all([
      row.activeSnapshot === null ? startNew(sandbox, compiled) : startFork(sandbox),
      startAsked().then(() => applyRules(sandbox)),
    ]);
    faultPoint('create.committed');
  } catch (error) {
    try {
      await removeSandbox(sandbox);
    } catch (undoing) {
      // It stays as `destroying`, and the engine or the next daemon tries again.
      world.log.error('create.undo', { sandbox: row.id, error: undoing });
    }
    throw error;
  }
}

/**
 * They hold before its first command may run. Nobody waits for an egress process that is starting where they open nothing, for a sandbox
 * that it does not know yet reaches nothing either, or where it hears nobody yet: what a command connects to meanwhile, its relay holds.
 */
async function applyRules({ world, row, rules }: Sandbox): Promise<void> {
  if (world.network.holdsAll) return;
  const applied = world.network.apply(row.id);
  if (opensAny(rules.policy)) return await applied;
  applied.catch((error: unknown) => world.log.error('create.rules', { sandbox: row.id, error }));
}

async function startNew(sandbox: Sandbox, compiled: CompiledRoot | undefined): Promise<void> {
  const { world, row } = sandbox;
  const trees = stackOrder(row.layers).map((layer) => layer.digest);
  const memory = sandbox.goesOnFrom?.files;
  const spec = { ...startSpec(world, row, { trees, compiled }), makesUpper: true, memory };
  const running = await world.driver.start(spec, sandbox.removal.signal);
  faultPoint('create.started');
  sandbox.started(running, createdEvent(sandbox));
}

/** Its snapshots may have to be unpacked first, and lie over its layers. */
async function startFork(sandbox: Sandbox): Promise<void> {
  sandbox.mayLackUpper = true;
  await bringMissing(sandbox, sandbox.row.layers);
  await sandbox.start({}, 'transaction', createdEvent(sandbox));
}

function createdEvent({ row: { cpu, memoryMb, maxLifetimeS } }: Sandbox): SandboxEvent {
  return {
    type: 'sandbox.created',
    data: { cpu, memory_mb: memoryMb, max_lifetime_s: maxLifetimeS },
  };
}

/** The driver connects in one turn of the event loop and asks in the next: the start goes on while rules are put together. */
async function startAsked(): Promise<void> {
  await nextTurn();
  await nextTurn();
}
