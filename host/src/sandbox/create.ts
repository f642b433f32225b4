/**
 * Making a sandbox, and taking one away.
 *
 * Create writes its row (`creating`) before its first directory, destroy marks the row (`destroying`) before it
 * ends anything and deletes it last. So after a crash every directory has a row that says what it is: half a
 * create is undone, half a destroy is completed, and a directory without a row is none of ours to remove (but see recover.ts
 * for a cut of the machine's power).
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { AppError } from '@squash/contract/errors';
import type { CreateRequest } from '@squash/contract/sandbox';
import { faultPoint } from '#sandbox/fault.ts';
import type { LayerRef, SandboxRow } from '#store/rows.ts';
import { Sandbox, startSpec } from './sandbox.ts';
import { stackOrder } from './stacking.ts';
import { checkLayerCount } from './trees.ts';
import type { World } from './world.ts';

const bytesPerMb = 1_048_576;

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
  const draft = draftRow(world, request);
  const made = await world.layerLock.shared(async () => {
    const layers = await Promise.all(
      modules.map(
        async (module): Promise<LayerRef> => ({ module, digest: await world.layers.ensureModule(module) }),
      ),
    );
    faultPoint('create.layers');
    const trees = stackOrder(layers).map((layer) => layer.digest);
    const trust = (await world.network.trustLayer(trees)) ?? null;
    const sandbox = insert(world, { ...draft, layers, trust });
    // Still under the lock: who collects unused trees asks the registered sandboxes what they use.
    register(sandbox);
    return sandbox;
  });
  await made.mailbox.post(() => bringUp(made, request));
  world.counters.created += 1;
  return made;
}

/** Everything of the row that needs no look at the layers. */
export function draftRow(world: World, request: CreateRequest): Omit<SandboxRow, 'layers' | 'trust'> {
  const nowMs = world.clock.wallMs();
  const limits = {
    ...world.fixedLimits,
    cpuMilli: Math.max(1, Math.round(request.cpu * 1_000)),
    memoryBytesMax: request.memoryMb * bytesPerMb,
  };
  const { upperKind } = world.driver;
  const unenforced = world.driver.warnings({ limits, upperKind });
  if (world.requiresLimits && unenforced.length > 0) {
    const reasons = unenforced.map((warning) => warning.message).join('; ');
    throw new AppError('limits_unenforceable', `Cannot create sandbox "${request.id}": ${reasons}`);
  }
  return {
    id: request.id,
    owner: request.owner,
    task: request.task,
    createdMs: nowMs,
    lastActiveMs: nowMs,
    cpu: request.cpu,
    memoryMb: request.memoryMb,
    maxLifetimeS: request.maxLifetimeS,
    allowNet: request.allowNet === undefined ? null : [...request.allowNet],
    policy: request.policy ?? null,
    secrets: request.secrets,
    ownSecrets: Object.keys(request.ownSecrets),
    upstream: request.upstream ?? null,
    warnings: [...request.warnings],
    limits,
    upperKind,
    upperGeneration: 1,
    upperMadeMs: nowMs,
    activeSnapshot: null,
    phase: 'creating',
    failure: null,
    instance: 0,
    nextSeq: 1,
    pending: null,
    revision: 1,
  };
}

function insert(world: World, draft: SandboxRow): Sandbox {
  const { store } = world;
  // Refuses names that can't be stacked while nothing exists yet.
  stackOrder(draft.layers);
  // The first one's is on the disk before its directory: see `openState`.
  const row = store[store.sandboxes.wasUsed() ? 'transaction' : 'durably'](() => {
    const numbered = { ...draft, instance: store.sandboxes.nextInstance() };
    store.sandboxes.insert(numbered);
    return numbered;
  });
  faultPoint('create.inserted');
  return new Sandbox(world, row, []);
}

async function bringUp(sandbox: Sandbox, { ownSecrets }: CreateRequest): Promise<void> {
  const { world, row } = sandbox;
  try {
    world.files.make(row.id);
    faultPoint('create.directory');
    await world.network.keepSecrets(row.id, ownSecrets);
    const trees = stackOrder(row.layers).map((layer) => layer.digest);
    const [running] = await Promise.all([
      world.driver.start({ ...startSpec(row, trees), makesUpper: true }),
      // Its rules hold before its first command may run.
      startAsked().then(() => world.network.apply(row.id)),
    ]);
    faultPoint('create.started');
    sandbox.started(running);
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

/** The driver connects in one turn of the event loop and asks in the next: the start goes on while rules are put together. */
async function startAsked(): Promise<void> {
  await nextTurn();
  await nextTurn();
}

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
  await deleteRow(sandbox);
  faultPoint('destroy.deleted');
  // Nobody waits for the room: it comes back behind the answer, or with the next daemon.
  void files.clear(row.id);
  sandbox.close();
  sandbox.mailbox.close(new AppError('sandbox_not_found', `Cannot use sandbox "${row.id}": it was removed`));
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

async function deleteRow({ world: { store, files }, row }: Sandbox): Promise<void> {
  try {
    store.pressing(() => store.sandboxes.delete(row.id));
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    // Its files make the room.
    await files.clear(row.id);
    store.pressing(() => store.sandboxes.delete(row.id));
  }
}

function isDiskFull(error: unknown): boolean {
  return error instanceof AppError && error.code === 'disk_full';
}
