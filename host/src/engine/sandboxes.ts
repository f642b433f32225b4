/**
 * Sandboxes themselves: create, look at, destroy, and the end of their lifetime.
 *
 * What is here and what is on its way count for every limit: one thread, so checking and taking a place is one step.
 */
import type { Problem } from '@squash/contract/daemon';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import type { CreateRequest, CreateWish, SandboxInfo } from '@squash/contract/sandbox';
import { createSandbox } from '../sandbox/create.ts';
import { Reaper } from '../sandbox/reaper.ts';
import type { World } from '../sandbox/world.ts';
import type { Admission } from './admission.ts';
import { type Ceilings, granted } from './ceilings.ts';
import type { LocalModules } from './modules.ts';
import { Removals } from './removals.ts';
import type { Residents } from './residents.ts';

export interface Sandboxes {
  /** Resolves when it takes commands. */
  create(wish: CreateWish): Promise<SandboxInfo>;
  /** Sorted by id. */
  list(): readonly SandboxInfo[];
  get(id: SandboxId): SandboxInfo;
  /** @throws sandbox_not_found */
  ownerOf(id: SandboxId): string;
  /** Resolves when nothing of it runs and its id is free; its room comes back a moment later. */
  destroy(id: SandboxId): Promise<void>;
}

export interface SandboxesOptions {
  readonly world: World;
  readonly residents: Residents;
  readonly modules: LocalModules;
  readonly admission: Admission;
  readonly ceilings: Ceilings;
  readonly sandboxesMax: number;
}

export class LocalSandboxes implements Sandboxes, Disposable {
  readonly #options: SandboxesOptions;
  readonly #world: World;
  readonly #residents: Residents;
  readonly #admission: Admission;
  readonly #removals: Removals;
  readonly #reaper: Reaper;

  constructor(options: SandboxesOptions) {
    this.#options = options;
    this.#world = options.world;
    this.#residents = options.residents;
    this.#admission = options.admission;
    this.#removals = new Removals(options);
    this.#reaper = new Reaper({
      nowMs: () => this.#world.clock.monoMs(),
      rows: () =>
        this.#residents.all().map(({ row: { id, maxLifetimeS }, bornMs }) => ({ id, maxLifetimeS, bornMs })),
      reap: (id) => this.#reap(id),
    });
  }

  /** Lifetimes count from here on. */
  begin(): void {
    this.#reaper.look();
  }

  async create(wish: CreateWish): Promise<SandboxInfo> {
    const { id } = wish;
    const request = granted(wish, this.#options.ceilings);
    this.#reserve(request);
    try {
      if (this.#world.files.exists(this.#world.files.directory(id))) throw strangerError(id);
      const sandbox = await createSandbox(this.#world, request, (made) => {
        this.#residents.add(made);
        this.#admission.release(id);
      });
      this.#reaper.look();
      return sandbox.info();
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
      .map((sandbox) => sandbox.info())
      .sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  }

  get(id: SandboxId): SandboxInfo {
    return this.#residents.find(id).info();
  }

  ownerOf(id: SandboxId): string {
    return this.#residents.find(id).row.owner;
  }

  async destroy(id: SandboxId): Promise<void> {
    await this.#removals.run(this.#residents.find(id));
  }

  problems(): readonly Problem[] {
    return this.#removals.problems();
  }

  /** Goes on with the removals that an earlier daemon began. */
  async resume(): Promise<void> {
    await this.#removals.resume();
  }

  [Symbol.dispose](): void {
    this.#reaper[Symbol.dispose]();
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

  #reap(id: SandboxId): void {
    const sandbox = this.#residents.peek(id);
    if (sandbox === undefined || this.#removals.has(sandbox)) return;
    this.#world.log.info('sandbox.reap', { sandbox: id });
    this.#removals.run(sandbox).then(
      () => {
        this.#world.counters.reaped += 1;
      },
      // It is tried again, and the log says why.
      () => undefined,
    );
  }
}

function strangerError(id: SandboxId): AppError {
  return new AppError(
    'sandbox_exists',
    `Cannot create sandbox "${id}": its directory exists but the database does not know it: "squash doctor --repair" takes it in`,
  );
}
