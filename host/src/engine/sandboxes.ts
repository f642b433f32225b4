/**
 * Sandboxes themselves: create, look at, destroy, and the end of their lifetime.
 *
 * The number of sandboxes is limited by what is here and the reservations: one thread, so checking and taking a place
 * is one step.
 */
import type { Problem } from '@squash/contract/daemon';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import type { CreateRequest, SandboxInfo } from '@squash/contract/sandbox';
import { createSandbox } from '../sandbox/create.ts';
import { Reaper } from '../sandbox/reaper.ts';
import type { World } from '../sandbox/world.ts';
import type { LocalModules } from './modules.ts';
import { Removals } from './removals.ts';
import type { Residents } from './residents.ts';

export interface Sandboxes {
  /** Resolves when it takes commands. */
  create(request: CreateRequest): Promise<SandboxInfo>;
  /** Sorted by id. */
  list(): readonly SandboxInfo[];
  get(id: SandboxId): SandboxInfo;
  /** Resolves when nothing of it runs and its id is free; its room comes back a moment later. */
  destroy(id: SandboxId): Promise<void>;
}

export interface SandboxesOptions {
  readonly world: World;
  readonly residents: Residents;
  readonly modules: LocalModules;
  readonly sandboxesMax: number;
}

export class LocalSandboxes implements Sandboxes, Disposable {
  readonly #options: SandboxesOptions;
  readonly #world: World;
  readonly #residents: Residents;
  /** Ids of creates that have no row yet. */
  readonly #reserved = new Set<SandboxId>();
  readonly #removals: Removals;
  readonly #reaper: Reaper;

  constructor(options: SandboxesOptions) {
    this.#options = options;
    this.#world = options.world;
    this.#residents = options.residents;
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

  async create(request: CreateRequest): Promise<SandboxInfo> {
    const { id } = request;
    this.#reserve(id);
    try {
      if (this.#world.files.exists(this.#world.files.directory(id))) throw strangerError(id);
      const sandbox = await createSandbox(this.#world, request, (made) => this.#residents.add(made));
      this.#reaper.look();
      return sandbox.info();
    } catch (error) {
      const made = this.#residents.peek(id);
      if (made?.isClosed === true) this.#residents.remove(made);
      // Where even the undo failed it stays, to be seen, and is undone later.
      else if (made?.state.phase === 'destroying' && !this.#removals.has(id))
        this.#removals.later(made, error);
      throw error;
    } finally {
      this.#reserved.delete(id);
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

  #reserve(id: SandboxId): void {
    if (this.#residents.peek(id) !== undefined || this.#reserved.has(id)) {
      throw new AppError('sandbox_exists', `Cannot create sandbox "${id}": it exists`);
    }
    const { sandboxesMax } = this.#options;
    if (this.#residents.count + this.#reserved.size >= sandboxesMax) {
      throw new AppError(
        'sandbox_limit',
        `Cannot create sandbox "${id}": there are ${sandboxesMax}, the most SQUASH_MAX_SANDBOXES allows`,
      );
    }
    this.#reserved.add(id);
  }

  #reap(id: SandboxId): void {
    if (this.#removals.has(id)) return;
    this.#world.log.info('sandbox.reap', { sandbox: id });
    this.destroy(id).then(
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
