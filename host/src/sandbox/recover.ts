/**
 * What a new daemon does with what it finds: rows, running sandboxes, directories.
 *
 * Decided per sandbox by `planOf`, a pure function over the row and what runs; carried out by `recover`. Nothing
 * that was acknowledged is lost, nothing half done stays:
 *
 * - `creating` was never answered: undone. `destroying` was wanted: completed.
 * - a running instance that is the row's is taken over, with its commands at their stored offsets; where its launcher is of a
 *   release that this daemon can't work with, it is left alone;
 * - a row whose PID 1 is gone (reboot, death) starts again on its upper; its commands are `lost`;
 * - what runs and has no row, or is not the row's instance, is ended;
 * - a directory without a row is never removed unless it is empty: rows are deleted after directories, so such a
 *   directory means a database that was lost, and its upper is somebody's work. `doctor --repair` takes it in. But for one
 *   that the machine's power cut in the second before its row was on the disk: no command ran in it (upper-loss.ts).
 */
import { readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Problem } from '@squash/contract/daemon';
import { AppError } from '@squash/contract/errors';
import { type SandboxId, sandboxIdSchema } from '@squash/contract/ids';
import type { SandboxRow } from '#store/rows.ts';
import type { RunningSandbox } from '../drivers/driver.ts';
import { dropUpper } from './layering.ts';
import { endLost } from './lost-commands.ts';
import { takeOverOriginals } from './original.ts';
import { Sandbox } from './sandbox.ts';
import { findFiles } from './snapshot-intake.ts';
import { sweepRemoved } from './snapshots.ts';
import { takeOver } from './take-over.ts';
import { freshUppers, upperMade } from './upper-loss.ts';
import type { World } from './world.ts';

export type Plan =
  | { readonly do: 'remove' }
  | { readonly do: 'take-over'; readonly running: RunningSandbox }
  | { readonly do: 'leave' }
  /** What else may run under this id is ended first. */
  | { readonly do: 'start' };

export function planOf(
  row: Pick<SandboxRow, 'phase' | 'instance'>,
  running: RunningSandbox | undefined,
  isOutdated = false,
): Plan {
  if (row.phase === 'creating' || row.phase === 'destroying') return { do: 'remove' };
  if (running !== undefined && running.instance === row.instance)
    return isOutdated ? { do: 'leave' } : { do: 'take-over', running };
  return { do: 'start' };
}

/**
 * All sandboxes, each taken over, on its way, or to be removed. Resolves when everything that must not wait is done; sandboxes
 * that start anew go on starting behind it, some at a time.
 * @param isFirstOfBoot the machine may have lost its power since the last daemon
 */
export async function recover(world: World, isFirstOfBoot: boolean): Promise<readonly Sandbox[]> {
  const outdated = await world.driver.outdated();
  const running = new Map((await world.driver.list()).map((found) => [found.id, found]));
  const present = world.store.read(() => world.store.sandboxes.all());
  const named = await takeOverOriginals(world, new Set(present.map((row) => row.id)));
  const rows = world.store.read(() => world.store.sandboxes.all());
  const known = new Set(rows.map((row) => row.id));
  for (const found of running.values()) {
    if (known.has(found.id)) continue;
    world.log.warn('recover.orphan', { sandbox: found.id, instance: found.instance });
    await world.driver.stop(found.id);
  }
  await reportStrangers(world, new Set<string>([...known, ...named]), isFirstOfBoot);
  await world.files.emptyLeftovers();
  // The original's have their first use on record from a moment ago.
  const used = rows.filter((row) => present.some(({ id }) => id === row.id));
  const fresh = isFirstOfBoot ? freshUppers(used, world.clock.wallMs()) : new Set<SandboxId>();
  return await Promise.all(
    rows.map((row) =>
      recoverOne(world, row, { running: running.get(row.id), isFresh: fresh.has(row.id), outdated }),
    ),
  );
}

interface Found {
  readonly running: RunningSandbox | undefined;
  readonly isFresh: boolean;
  readonly outdated: Problem | undefined;
}

async function recoverOne(
  world: World,
  row: SandboxRow,
  { running, isFresh, outdated }: Found,
): Promise<Sandbox> {
  const snapshots = world.store.read(() => world.store.sandboxes.snapshots(row.id));
  const sandbox = new Sandbox(world, row, snapshots);
  const plan = planOf(row, running, outdated !== undefined);
  world.log.info('recover.sandbox', { sandbox: row.id, plan: plan.do, pending: row.pending?.op });
  if (plan.do === 'remove') {
    // By the engine, when it knows all sandboxes: what does not end holds up none of the others.
    sandbox.apply({ type: 'destroying' });
    return sandbox;
  }
  if (plan.do === 'leave') {
    // What PID 1 says of itself would be no reason: it is its launcher's, which says it for all.
    sandbox.failed(new AppError('launch_failed', outdated?.message ?? ''));
    return sandbox;
  }
  const shadow = await world.files.read(row.id);
  if (shadow?.sandbox.revision !== row.revision) world.files.follow(row, snapshots);
  if (row.rest !== null) {
    await recoverResting(sandbox, plan, isFresh);
    return sandbox;
  }
  if (plan.do === 'take-over' && (await takeOver(sandbox, plan.running))) {
    await settle(sandbox).catch(untold(sandbox, 'recover.pending'));
    return sandbox;
  }
  endLost(sandbox);
  if (isFresh) missUpper(sandbox);
  sandbox.apply({ type: 'replacing', reason: 'lost' });
  sandbox.mailbox.post(() => settle(sandbox)).catch((error: unknown) => sandbox.failed(error));
  sandbox.restart('lost');
  return sandbox;
}

/** What was paused stands still; where its processes are gone it is stopped, and nothing is started. */
async function recoverResting(sandbox: Sandbox, plan: Plan, isFresh: boolean): Promise<void> {
  const { world, row } = sandbox;
  const wakes = row.rest?.wakes ?? true;
  try {
    if (plan.do === 'take-over' && row.rest?.kind === 'paused') {
      // The last daemon may have died before it stood still.
      await world.driver.freeze(row.id);
      sandbox.foundPaused(plan.running, wakes);
    } else {
      await world.driver.stop(row.id);
      endLost(sandbox);
      if (isFresh) missUpper(sandbox);
      if (row.rest?.kind === 'paused') sandbox.change({ rest: { kind: 'stopped', wakes } }, 'pressing');
      sandbox.apply({ type: 'stopped', wakes });
    }
    await settle(sandbox);
  } catch (error) {
    untold(sandbox, 'recover.resting')(error);
    if (sandbox.state.phase === 'creating') sandbox.failed(error);
  }
}

/** Its next start makes what a power cut took of its upper; where that is all of it, it is said. */
function missUpper(sandbox: Sandbox): void {
  const { world, row } = sandbox;
  sandbox.mayLackUpper = true;
  if (row.upperKind === 'tmpfs' || world.driver.hasUpper(row.id, row.upperGeneration)) return;
  world.log.warn('recover.upper_made', { sandbox: row.id });
  const warnings = [...row.warnings.filter(({ code }) => code !== upperMade.code), upperMade];
  try {
    // The next power cut may come before this one is on the disk, too.
    sandbox.change({ upperMadeMs: sandbox.nowMs(), warnings }, 'pressing');
  } catch (error) {
    untold(sandbox, 'recover.upper_made')(error);
  }
}

/** One sandbox whose recovery is cut short by a full disk, say, keeps no other one and no daemon from starting. */
function untold(sandbox: Sandbox, event: string): (error: unknown) => void {
  return (error) => sandbox.world.log.error(event, { sandbox: sandbox.row.id, error });
}

async function settle(sandbox: Sandbox): Promise<void> {
  await settlePending(sandbox);
  await sweepRemoved(sandbox);
  try {
    await findFiles(sandbox);
  } catch (error) {
    // A new file that can't be taken in now is found by whoever asks for it.
    sandbox.world.log.warn('recover.snapshots', { sandbox: sandbox.row.id, error });
  }
}

/** Undoes or completes the operation that the crash interrupted. */
async function settlePending(sandbox: Sandbox): Promise<void> {
  const { world, row } = sandbox;
  switch (row.pending?.op) {
    case undefined:
      return;
    case 'activate':
      return sandbox.change({ pending: null }, 'pressing');
    case 'snapshot':
      await world.files.dropSnapshot(row.id, row.pending.label);
      return sandbox.change({ pending: null }, 'pressing');
    case 'restore':
    case 'drop':
      return dropUpper(sandbox, row.pending.generation);
  }
}

/** Directories that no row knows are left alone and told of; what was just begun is removed. */
async function reportStrangers(
  world: World,
  known: ReadonlySet<string>,
  isFirstOfBoot: boolean,
): Promise<void> {
  for (const name of await world.files.directories()) {
    if (known.has(name)) continue;
    const id = name as SandboxId;
    if (await removeIfEmpty(world.files.directory(id))) continue;
    if (isFirstOfBoot && (await wasJustBegun(world, id))) {
      world.log.warn('recover.unrecorded', { directory: `sandboxes/${name}` });
      await world.files.discard(id);
      continue;
    }
    world.log.warn('recover.stranger', {
      directory: `sandboxes/${name}`,
      remedy: '"squash doctor --repair" takes it in; or remove it yourself',
    });
  }
}

/**
 * A create waits for no disk: its directory may be there before its row, which is synced before the first command runs
 * and before the shadow file is written. So an upper and nothing else is a sandbox that nobody has used.
 */
async function wasJustBegun({ files }: World, id: SandboxId): Promise<boolean> {
  if (!sandboxIdSchema.safeParse(id).success || files.exists(files.shadow(id))) return false;
  // Not a directory, or not ours to look into: then it is nobody's create.
  const parts = await readdir(files.directory(id)).catch(() => ['unknown']);
  return parts.every((part) => part === 'uppers' || part === '.meta');
}

async function removeIfEmpty(directory: string): Promise<boolean> {
  try {
    for (const part of ['.meta', 'snapshots', 'uppers'])
      await rmdir(join(directory, part)).catch(() => undefined);
    await rmdir(directory);
    return true;
  } catch {
    // Not empty, or not ours to touch: it stays.
    return false;
  }
}
