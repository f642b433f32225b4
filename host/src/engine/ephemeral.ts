/**
 * Ephemeral mode: the bucket is what lasts. A sandbox's files go there before it ends, and every few minutes while something
 * runs in it; what lies on this machine's disk may be gone at any time.
 *
 * What a newcomer would get wrong: a removal that cannot save is refused, for nothing else has the files. A microVM is stopped for its
 * removal, and its disk read by a guest that nobody has had: one that runs could refuse to be read, and so refuse its removal.
 */
import { AppError } from '@squash/contract/errors';
import type { Problem, Unsaved } from '@squash/contract/daemon';
import { errorText } from '@squash/base/bug';
import { isImageLayer, type SnapshotLabel, snapshotLabelSchema } from '@squash/contract/ids';
import { randomBytes } from 'node:crypto';
import { isRemoved } from '#store/rows.ts';
import type { RemoteModules } from '../layers/layer-store.ts';
import { snapshot } from '../sandbox/layering.ts';
import { Semaphore } from '../sandbox/mailbox.ts';
import { automaticLabel, isAutomatic, type RemoteSnapshots } from '../sandbox/remote-snapshots.ts';
import { goOn, pause, stopProcesses } from '../sandbox/rest.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { removeSnapshot } from '../sandbox/snapshots.ts';
import type { World } from '../sandbox/world.ts';
import type { Residents } from './residents.ts';

/** Of each backend. Each packs a sandbox's files, and merges them with what they lie on. */
const savesMax = 2;

export interface EphemeralOptions {
  readonly world: World;
  readonly residents: Residents;
  readonly remote: RemoteSnapshots;
  readonly modules: Pick<RemoteModules, 'flush'>;
  /** Between two looks at all sandboxes. */
  readonly intervalMs: number;
}

interface Saving {
  readonly ends: boolean;
  readonly done: Promise<void>;
  readonly stopping: AbortController;
  readonly hasTurn: () => boolean;
}

export class Ephemeral implements AsyncDisposable {
  readonly #options: EphemeralOptions;
  readonly #saving = new Map<Sandbox, Saving>();
  /** What had run of each when its files were last in the bucket. One of which nothing is known is saved: a look behind its start would be late. */
  readonly #saved = new WeakMap<Sandbox, string>();
  readonly #unsaved = new Map<Sandbox, unknown>();
  /** A guest that runs may take its time to be read: saves of others that end wait for none. */
  readonly #turns = {
    chroot: new Semaphore(savesMax),
    vm: new Semaphore(savesMax),
    vmEnd: new Semaphore(savesMax),
  };
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: EphemeralOptions) {
    this.#options = options;
  }

  begin(): void {
    const { residents, world } = this.#options;
    for (const sandbox of residents.all())
      this.#tidy(sandbox).catch((error: unknown) =>
        world.log.warn('ephemeral.tidy', { sandbox: sandbox.row.id, error }),
      );
    this.#next();
  }

  /** What a daemon that was killed had taken and not pushed: the sandbox has all of it still. */
  async #tidy({ row, snapshots }: Sandbox): Promise<void> {
    const { residents } = this.#options;
    for (const each of snapshots) {
      if (!isAutomatic(each) || isRemoved(each) || each.label === row.activeSnapshot) continue;
      await residents.operate(row.id, (sandbox) => removeSnapshot(sandbox, each.label));
    }
  }

  #next(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#looking = this.#look().finally(() => this.#next());
    }, this.#options.intervalMs).unref();
  }

  /**
   * Resolves when the bucket has all its files. `ends`: it is to be removed then, and stands still from here on; where it
   * can't be saved it goes on. @throws bucket_unavailable, bucket_conflict, disk_full and what a snapshot does
   */
  async save(sandbox: Sandbox, ends: boolean): Promise<void> {
    for (let running = this.#saving.get(sandbox); running !== undefined; ) {
      if (running.ends || !ends) return await running.done;
      // It would be asked for as long as it likes, and is read by another one in a moment.
      if (sandbox.row.backend === 'vm') running.stopping.abort();
      // Nor is it waited for behind others.
      if (running.stopping.signal.aborted && !running.hasTurn()) break;
      await running.done.catch(() => undefined);
      running = this.#saving.get(sandbox);
    }
    let hasTurn = false;
    const stopping = new AbortController();
    const { backend } = sandbox.row;
    const done = this.#turns[backend === 'vm' && ends ? 'vmEnd' : backend]
      .run(() => {
        hasTurn = true;
        return this.#save(sandbox, ends, stopping.signal);
      })
      .then(
        () => void this.#unsaved.delete(sandbox),
        (error: unknown) => {
          if (!sandbox.isClosed) this.#unsaved.set(sandbox, error);
          throw error;
        },
      )
      .finally(() => {
        if (this.#saving.get(sandbox)?.done === done) this.#saving.delete(sandbox);
      });
    this.#saving.set(sandbox, { ends, done, stopping, hasTurn: () => hasTurn });
    await done;
  }

  /**
   * It is to be removed though nothing else has its files: they are kept on this machine, first of all, so that no crash takes them.
   * @param why it could not be saved
   */
  async setAside({ row: { id } }: Sandbox, why: unknown): Promise<void> {
    const { residents, world } = this.#options;
    await residents.operate(id, async (sandbox) => {
      const { phase } = sandbox.state;
      if (phase === 'ready' || phase === 'paused') await stopProcesses(sandbox, true);
      const path = await world.files.setAside(id);
      world.log.warn('ephemeral.aside', { sandbox: id, path, error: why });
    });
  }

  problems(): readonly Problem[] {
    const here = [...this.#unsaved].filter(([sandbox]) => !sandbox.isClosed);
    return (['bucket_unavailable', 'save_pending'] as const).flatMap((code) => {
      const all = here.filter(([, error]) => problemCodeOf(error) === code);
      const [first] = all;
      if (first === undefined) return [];
      const [{ row }, error] = first;
      const who = code === 'save_pending' ? ' for a reason of their own' : '';
      const message = `sandboxes whose files are not in the bucket as they are here${who}: ${all.length}, "${row.id}" for one (${errorText(error)}). They are kept, and it is tried again`;
      return [{ code, message }];
    });
  }

  /** Of all: saved and removed by `remove`; what can't be saved stays for the next daemon. */
  async endAll(remove: (sandbox: Sandbox) => Promise<void>): Promise<readonly Unsaved[]> {
    const { residents, world } = this.#options;
    const kept: Unsaved[] = [];
    this.#close();
    await Promise.all(
      residents.all().map(async (sandbox) => {
        try {
          await this.save(sandbox, true);
          await remove(sandbox);
        } catch (error) {
          const { id } = sandbox.row;
          world.log.error('ephemeral.kept', { sandbox: id, error });
          kept.push({
            id,
            code: codeOf(error),
            why: errorText(error),
          });
        }
      }),
    );
    return kept;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close();
    await this.#looking;
  }

  #close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    const { residents, world } = this.#options;
    await Promise.all(
      residents.all().map(async (sandbox) => {
        await this.save(sandbox, false).catch((error: unknown) =>
          world.log.warn('ephemeral.save', { sandbox: sandbox.row.id, error }),
        );
      }),
    );
  }

  async #save(sandbox: Sandbox, ends: boolean, giveUp: AbortSignal): Promise<void> {
    const { residents, remote, modules } = this.#options;
    const { id, layers } = sandbox.row;
    if (isGoing(sandbox) || (!ends && this.#isClosed)) return;
    giveUp.throwIfAborted();
    await remote.flush(id);
    // Its files are nothing without what they lie on. Other modules are the operator's to bring; these were made here, of an image that
    // another machine may not find again.
    await modules.flush(layers.map(({ module }) => module).filter(isImageLayer));
    const isSaved = (mark: string | undefined): boolean =>
      mark !== undefined && mark === this.#saved.get(sandbox);
    if (!ends && isSaved(await this.#markOf(sandbox))) return;
    // Before anything of it is ended: a bucket that is away is so still when it has been read.
    if (ends && sandbox.row.backend === 'vm') await remote.latest(sandbox.row).catch(unlessAway);
    let wasPaused = false;
    try {
      const { mark, label } = await residents.operate(id, async () => {
        if (ends) wasPaused = await standStill(sandbox);
        // Before it is taken, and where it ends when nothing runs any more: what runs behind the look is not in the mark.
        const looked = await this.#markOf(sandbox);
        return { mark: looked, label: isSaved(looked) ? undefined : await this.#take(sandbox, giveUp) };
      });
      if (label === undefined) return;
      try {
        await remote.push({ id, label }, {});
      } finally {
        await residents.operate(id, () => removeSnapshot(sandbox, label));
      }
      if (mark !== undefined) this.#saved.set(sandbox, mark);
    } catch (error) {
      if (isGoing(sandbox)) return;
      if (wasPaused) await this.#goOn(sandbox);
      if (ends && isLost(sandbox, error)) {
        this.#options.world.log.error('ephemeral.lost', { sandbox: id, error });
        return;
      }
      throw error;
    }
  }

  /** Where it can't it stands still, which whoever asks sees, and the reason that matters is on its way. */
  async #goOn({ row: { id } }: Sandbox): Promise<void> {
    const { residents, world } = this.#options;
    await residents
      .operate(id, goOn)
      .catch((error: unknown) => world.log.warn('ephemeral.still', { sandbox: id, error }));
  }

  /** By its time, so that the last one sorts last; of two machines' in one second neither is the other's. */
  async #take(sandbox: Sandbox, giveUp: AbortSignal): Promise<SnapshotLabel> {
    const stamp = new Date(sandbox.nowMs()).toISOString().replaceAll(/[-:]/g, '').replace('T', '-');
    const wished = `${stamp.slice(0, 15)}-${randomBytes(4).toString('hex')}`;
    const { label } = await snapshot(sandbox, {
      label: snapshotLabelSchema.parse(wished),
      labels: { [automaticLabel]: 'yes' },
      giveUp,
    });
    return label;
  }

  async #markOf({ row, state }: Sandbox): Promise<string | undefined> {
    // Nothing of it runs.
    if (state.phase === 'stopped' || state.phase === 'failed')
      return `${row.instance} ${row.upperGeneration} ${state.phase}`;
    if (state.phase !== 'ready' && state.phase !== 'paused') return undefined;
    try {
      const { id, backend, upperGeneration: generation } = row;
      const written = await this.#options.world.driver.writtenMark({ id, backend, generation });
      return written === undefined ? undefined : `${row.instance} ${generation} ${written}`;
    } catch {
      return undefined;
    }
  }
}

/** What is not the bucket's fault is no reason to look at it: a guest that does not answer, a disk without room, files that fit in no snapshot. */
function problemCodeOf(error: unknown): 'bucket_unavailable' | 'save_pending' {
  return codeOf(error) === 'bucket_unavailable' ? 'bucket_unavailable' : 'save_pending';
}

function codeOf(error: unknown): string {
  return error instanceof AppError ? error.code : 'internal';
}

function unlessAway(error: unknown): void {
  if (error instanceof AppError && error.code === 'bucket_unavailable') throw error;
}

/** Nothing of it runs from here on. True: it is to go on where it stays after all; a microVM is started by whoever uses it then. */
async function standStill(sandbox: Sandbox): Promise<boolean> {
  const { state, row } = sandbox;
  if (row.backend === 'vm') {
    if (state.phase === 'ready') await stopProcesses(sandbox, true);
    if (state.phase === 'paused') await stopProcesses(sandbox, state.wakes);
    return false;
  }
  if (state.phase !== 'ready') return false;
  await pause(sandbox, true);
  return true;
}

function isGoing({ state, isClosed, removal }: Sandbox): boolean {
  return isClosed || removal.signal.aborted || state.phase === 'destroying' || state.phase === 'creating';
}

/** It can't be started, and not even read: keeping it would keep it for ever. */
function isLost({ state }: Sandbox, error: unknown): boolean {
  return state.phase === 'failed' && error instanceof AppError && error.code === 'layer_corrupt';
}
