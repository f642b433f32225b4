/**
 * Sandboxes themselves: create, look at, destroy, and the end of their lifetime.
 *
 * What is here and what is on its way count for every limit: one thread, so checking and taking a place is one step.
 */
import type { Problem, Unsaved } from '@squash/contract/daemon';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { SandboxId, SnapshotLabel } from '@squash/contract/ids';
import type { SandboxPatch, SandboxRecord, sandboxPageSchema } from '@squash/contract/native-sandbox';
import type { CreateRequest, CreateWish, SandboxInfo } from '@squash/contract/sandbox';
import type { z } from 'zod';
import { createFork, createSandbox, createSaved } from '../sandbox/create.ts';
import { inherited } from '../sandbox/fork.ts';
import { infoOf, nativeInfoOf } from '../sandbox/info.ts';
import { goOn, pause, stopProcesses } from '../sandbox/rest.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { World } from '../sandbox/world.ts';
import type { Admission } from './admission.ts';
import type { Ephemeral } from './ephemeral.ts';
import { type Ceilings, granted } from './ceilings.ts';
import { changeSandbox } from './change.ts';
import type { LocalModules } from './modules.ts';
import { Removals } from './removals.ts';
import type { Residents } from './residents.ts';
import { Makings } from './makings.ts';
import { pageOf, type SandboxQuery } from './page.ts';
import { type Over, timedOutEvent, TimeOuts } from './time-outs.ts';

export interface Sandboxes {
  /** Resolves when it takes commands. */
  create(wish: CreateWish): Promise<SandboxInfo>;
  /** Sorted by id. */
  list(): readonly SandboxInfo[];
  get(id: SandboxId): SandboxInfo;
  /** As `/v1` tells of it. */
  describe(id: SandboxId): SandboxRecord;
  /** Newest first. @throws invalid_request for a cursor that is none */
  page(query: SandboxQuery): z.infer<typeof sandboxPageSchema>;
  update(id: SandboxId, patch: SandboxPatch): Promise<SandboxRecord>;
  /** `memory`: its processes stand still; `files`: they end. */
  pause(id: SandboxId, keep: 'memory' | 'files'): Promise<SandboxRecord>;
  resume(id: SandboxId): Promise<SandboxRecord>;
  /** @throws sandbox_not_found */
  ownerOf(id: SandboxId): string;
  /**
   * Resolves when nothing of it runs and its id is free; its room comes back a moment later.
   * @param unsaved what becomes of one that ephemeral mode can't save
   */
  destroy(id: SandboxId, unsaved?: 'refuse' | 'aside'): Promise<void>;
}

export interface SandboxesOptions {
  readonly world: World;
  readonly residents: Residents;
  readonly modules: LocalModules;
  readonly admission: Admission;
  readonly ceilings: Ceilings;
  readonly sandboxesMax: number;
  /** undefined: not the mode. */
  readonly ephemeral: Ephemeral | undefined;
  /** One that only the bucket has. */
  readonly bringSnapshot: (id: SandboxId, label: SnapshotLabel) => Promise<void>;
}

/** A removal that fails each time takes a fifth of the time at most. */
const effortMax = 4;

export class LocalSandboxes implements Sandboxes, Disposable {
  readonly #options: SandboxesOptions;
  readonly #world: World;
  readonly #residents: Residents;
  readonly #admission: Admission;
  readonly #removals: Removals;
  readonly #timeOuts: TimeOuts;
  readonly #makings: Makings;
  readonly #reaping = new WeakSet<Sandbox>();

  constructor(options: SandboxesOptions) {
    this.#options = options;
    this.#world = options.world;
    this.#residents = options.residents;
    this.#admission = options.admission;
    this.#removals = new Removals(options);
    this.#makings = new Makings(this.#world, (id) => this.get(id));
    this.#timeOuts = new TimeOuts({ ...options, destroy: (sandbox, over) => this.#reap(sandbox, over) });
  }

  /** Lifetimes count from here on. */
  begin(): void {
    this.#timeOuts.look();
  }

  create(wish: CreateWish): Promise<SandboxInfo> {
    const once = wish.native?.once;
    return once === undefined ? this.#create(wish) : this.#makings.make(once, () => this.#create(wish));
  }

  async #create(wish: CreateWish): Promise<SandboxInfo> {
    const { id, native } = wish;
    const source = native?.from === undefined ? undefined : this.#residents.find(native.from.sandbox);
    const request = granted(source === undefined ? wish : inherited(wish, source), this.#options.ceilings);
    this.#reserve(request);
    const register = (made: Sandbox): void => {
      this.#residents.add(made);
      this.#admission.release(id);
    };
    try {
      if (this.#world.files.exists(this.#world.files.directory(id))) throw strangerError(id);
      if (source === undefined) await this.#options.modules.bring(request.layers);
      else if (native?.from?.snapshot !== undefined)
        await this.#options.bringSnapshot(source.row.id, native.from.snapshot);
      const sandbox = await (source === undefined
        ? this.#makeOrBring(request, register)
        : this.#fork(request, source, register));
      this.#timeOuts.look();
      return infoOf(sandbox);
    } catch (error) {
      const made = this.#residents.peek(id);
      if (made?.isClosed === true) this.#residents.remove(made);
      // Where even the undo failed it stays, to be seen, and is undone later.
      else if (made?.state.phase === 'destroying' && !this.#removals.has(made))
        this.#removals.later(made, error);
      throw error;
    } finally {
      this.#admission.release(id);
    }
  }

  list(): readonly SandboxInfo[] {
    return this.#residents
      .all()
      .map(infoOf)
      .sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  }

  get(id: SandboxId): SandboxInfo {
    return infoOf(this.#residents.find(id));
  }

  describe(id: SandboxId): SandboxRecord {
    return nativeInfoOf(this.#residents.find(id));
  }

  page(query: SandboxQuery): z.infer<typeof sandboxPageSchema> {
    return pageOf(this.#residents.all(), query);
  }

  async update(id: SandboxId, patch: SandboxPatch): Promise<SandboxRecord> {
    const { ceilings, admission } = this.#options;
    await this.#residents.operate(id, (sandbox) => changeSandbox(sandbox, patch, { ceilings, admission }));
    this.#timeOuts.look();
    return this.describe(id);
  }

  async pause(id: SandboxId, keep: 'memory' | 'files'): Promise<SandboxRecord> {
    const rest = keep === 'memory' ? pause : stopProcesses;
    await this.#residents.operate(id, (sandbox) => rest(sandbox, false));
    return this.describe(id);
  }

  async resume(id: SandboxId): Promise<SandboxRecord> {
    await this.#residents.operate(id, goOn);
    this.#timeOuts.look();
    return this.describe(id);
  }

  ownerOf(id: SandboxId): string {
    return this.#residents.find(id).row.owner;
  }

  async destroy(id: SandboxId, unsaved: 'refuse' | 'aside' = 'refuse'): Promise<void> {
    await this.#end(this.#residents.find(id), unsaved);
  }

  /** Of all, in ephemeral mode, when the daemon stops. @returns which could not be saved, and are kept */
  async endAll(): Promise<readonly Unsaved[]> {
    return (await this.#options.ephemeral?.endAll((sandbox) => this.#removals.run(sandbox))) ?? [];
  }

  /** @throws what `Ephemeral.save` does, and then it is as it was */
  async #end(sandbox: Sandbox, unsaved: 'refuse' | 'aside' = 'refuse'): Promise<void> {
    const { ephemeral } = this.#options;
    if (!this.#removals.has(sandbox))
      await ephemeral?.save(sandbox, true).catch(async (error: unknown) => {
        if (unsaved === 'refuse') throw unsavedError(sandbox.row.id, error);
        await ephemeral.setAside(sandbox, error);
      });
    await this.#removals.run(sandbox);
  }

  problems(): readonly Problem[] {
    return this.#removals.problems();
  }

  /** Goes on with the removals that an earlier daemon began. */
  async resumeRemovals(): Promise<void> {
    await this.#removals.resume();
  }

  [Symbol.dispose](): void {
    this.#timeOuts[Symbol.dispose]();
    this.#removals[Symbol.dispose]();
  }

  #reserve(request: CreateRequest): void {
    const { id } = request;
    if (this.#admission.has(id)) {
      throw new AppError('sandbox_exists', `Cannot create sandbox "${id}": it exists`);
    }
    const { sandboxesMax } = this.#options;
    if (this.#admission.count >= sandboxesMax) {
      throw new AppError(
        'sandbox_limit',
        `Cannot create sandbox "${id}": there are ${sandboxesMax}, the most SQUASH_MAX_SANDBOXES allows`,
      );
    }
    this.#admission.reserve(request);
  }

  /** In ephemeral mode with the files that the bucket has of this id. @throws bucket_unavailable, sandbox_exists */
  async #makeOrBring(request: CreateRequest, register: (made: Sandbox) => void): Promise<Sandbox> {
    const { ephemeral } = this.#options;
    const world = this.#world;
    const { id, owner } = request;
    const label = ephemeral === undefined ? undefined : await world.remote?.latest({ id, owner });
    if (label === undefined) return await createSandbox(world, request, register);
    let made: Sandbox | undefined;
    await world.remote?.fetch({ id, owner, label }, async (found) => {
      // What was a microVM is one again, where nobody says otherwise; nothing is less than what this daemon gives.
      const { backend = found.backend === 'vm' ? 'vm' : undefined } = request;
      made = await createSaved({ world, request: { ...request, backend } }, { ...found, label }, register);
    });
    if (made !== undefined) return made;
    throw new AppError(
      'bucket_unavailable',
      `Cannot create sandbox "${id}": its files went from the bucket while it was made`,
    );
  }

  #fork(request: CreateRequest, source: Sandbox, register: (made: Sandbox) => void): Promise<Sandbox> {
    const { snapshot, memory = false } = request.native?.from ?? {};
    const forking = { world: this.#world, request, source, snapshot, memory };
    const inTurn = <T>(body: () => Promise<T>): Promise<T> =>
      this.#residents.operate(source.row.id, () => body());
    return createFork(forking, inTurn, register);
  }

  #reap(sandbox: Sandbox, over: Over): void {
    if (this.#removals.has(sandbox) || this.#reaping.has(sandbox)) return;
    sandbox.tell(timedOutEvent(sandbox, over));
    this.#world.log.info('sandbox.reap', { sandbox: sandbox.row.id });
    this.#reaping.add(sandbox);
    const beganMs = this.#world.clock.monoMs();
    const againMs = (): number =>
      Math.max(limits.removalAgainMsMax, effortMax * (this.#world.clock.monoMs() - beganMs));
    this.#end(sandbox).then(
      () => {
        this.#world.counters.reaped += 1;
      },
      // It is tried again, and the log says why; where its files could not be saved, after a while.
      () => setTimeout(() => this.#reaping.delete(sandbox), againMs()).unref(),
    );
  }
}

function unsavedError(id: SandboxId, error: unknown): unknown {
  if (!(error instanceof AppError)) return error;
  // A bucket comes back.
  const way = error.code.startsWith('bucket_')
    ? ''
    : `; whoever runs the daemon gets rid of it with its files kept on this machine: squash rm --set-aside ${id}`;
  const text = `Cannot remove sandbox "${id}": its files can't be saved: ${error.message}${way}`;
  return new AppError(error.code, text, {
    cause: error,
    ...(error.subject !== undefined && { subject: error.subject }),
  });
}

function strangerError(id: SandboxId): AppError {
  return new AppError(
    'sandbox_exists',
    `Cannot create sandbox "${id}": its directory exists but the database does not know it: "squash doctor --repair" takes it in`,
  );
}
