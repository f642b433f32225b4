/**
 * The engine: sandboxes by id, and every operation of the API on them.
 *
 * The number of sandboxes is limited by what this map and the reservations hold: one thread, so checking and
 * taking a place is one step. Everything else is in the parts: this file only finds the sandbox and hands on.
 */
import { AppError } from '@squash/contract/errors';
import type { ExecRecord, ExecStart, JobInfo, ShellExecRequest } from '@squash/contract/exec';
import type { ModuleName, SandboxId, SnapshotLabel } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { PolicySource } from '@squash/contract/policy';
import type { CreateRequest, SandboxInfo } from '@squash/contract/sandbox';
import type { Clock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { ExecRow } from '#store/rows.ts';
import type { Store } from '#store/store.ts';
import type { Driver } from '../drivers/driver.ts';
import { GuestClient } from '../guest/client.ts';
import type { LayerStore, ModuleInfo } from '../layers/layer-store.ts';
import { execJob, execShell, execStream } from './commands.ts';
import { createSandbox, removeSandbox } from './create.ts';
import { engineMetrics, type Metric } from './engine-metrics.ts';
import type { Engine, EngineHealth, ExecSession, JobLogLine } from './engine.ts';
import { SandboxFiles } from './files.ts';
import { followJobLog } from './job-log.ts';
import { activate, restore, snapshot, type Taken } from './layering.ts';
import { jobHead } from './line-recorder.ts';
import { Semaphore, SharedLock } from './mailbox.ts';
import { jobOf, recordOf } from './outcome.ts';
import type { NetworkRules, SandboxNetwork } from './network.ts';
import { Reaper } from './reaper.ts';
import { recover } from './recover.ts';
import type { Sandbox } from './sandbox.ts';
import { layersInUse } from './trees.ts';
import { type FixedLimits, newCounters, type World } from './world.ts';

export interface LocalEngineOptions {
  readonly dataDir: string;
  readonly store: Store;
  readonly driver: Driver;
  readonly layers: LayerStore;
  readonly log: Log;
  readonly clock: Clock;
  /** Removes a tree below the data directory, whatever hostile code put there. */
  readonly removeTree: (path: string) => Promise<void>;
  readonly sandboxesMax: number;
  readonly requiresLimits: boolean;
  readonly network: SandboxNetwork;
  readonly fixedLimits: FixedLimits;
}

export class LocalEngine implements Engine, AsyncDisposable {
  readonly #world: World;
  readonly #sandboxesMax: number;
  readonly #sandboxes = new Map<SandboxId, Sandbox>();
  /** Ids of creates that have no row yet. */
  readonly #reserved = new Set<SandboxId>();
  readonly #destroying = new Map<SandboxId, Promise<void>>();
  readonly #reaper: Reaper;
  readonly #unsubscribe: () => void;

  private constructor(options: LocalEngineOptions) {
    const { dataDir, log, removeTree, driver } = options;
    this.#sandboxesMax = options.sandboxesMax;
    this.#world = {
      store: options.store,
      driver,
      layers: options.layers,
      files: new SandboxFiles({ dataDir, log, removeTree }),
      log,
      clock: options.clock,
      network: options.network,
      fixedLimits: options.fixedLimits,
      requiresLimits: options.requiresLimits,
      guestOf: (running) => new GuestClient({ connect: (signal) => driver.connect(running, signal) }),
      starts: new Semaphore(limits.startsAtOnceMax),
      usages: new Semaphore(limits.upperUsagesAtOnceMax),
      layerLock: new SharedLock(),
      counters: newCounters(),
    };
    this.#reaper = new Reaper({
      nowMs: () => options.clock.wallMs(),
      rows: () => [...this.#sandboxes.values()].map((sandbox) => sandbox.row),
      reap: (id) => this.#reap(id),
    });
    this.#unsubscribe = driver.onExit((ended) => this.#sandboxes.get(ended.id)?.pidOneEnded(ended.instance));
  }

  /** Takes over what an earlier daemon left. @throws launcher_unavailable, database_corrupt */
  static async open(options: LocalEngineOptions): Promise<LocalEngine> {
    const engine = new LocalEngine(options);
    for (const sandbox of await recover(engine.#world)) engine.#sandboxes.set(sandbox.row.id, sandbox);
    options.network.begin(() => engine.#rules());
    engine.#reaper.look();
    // What was only used by what is gone; a module that was replaced while no daemon ran, for example.
    engine.#collect();
    return engine;
  }

  async health(): Promise<EngineHealth> {
    const modules = await this.modules();
    return {
      sandboxes: this.#sandboxes.size,
      modules: modules.length,
      baseReady: modules.some((module) => module.name.startsWith('000-')),
    };
  }

  modules(): Promise<readonly ModuleInfo[]> {
    return this.#world.layers.modules();
  }

  importModule(
    hostPath: string,
    name: ModuleName,
    options: { readonly replace: boolean },
  ): Promise<ModuleInfo> {
    return this.#world.layerLock.shared(() => this.#world.layers.importModule(hostPath, name, options));
  }

  removeModule(name: ModuleName): Promise<void> {
    return this.#world.layerLock.exclusive(() =>
      this.#world.layers.removeModule(name, layersInUse(this.#sandboxes.values())),
    );
  }

  async create(request: CreateRequest): Promise<SandboxInfo> {
    const { id } = request;
    this.#reserve(id);
    try {
      if (await this.#world.files.exists(this.#world.files.directory(id))) throw strangerError(id);
      const sandbox = await createSandbox(this.#world, request, (made) => this.#sandboxes.set(id, made));
      this.#reaper.look();
      return sandbox.info();
    } catch (error) {
      // Where even the undo failed it stays, to be seen and removed.
      if (this.#sandboxes.get(id)?.isClosed === true) this.#sandboxes.delete(id);
      throw error;
    } finally {
      this.#reserved.delete(id);
    }
  }

  list(): readonly SandboxInfo[] {
    return [...this.#sandboxes.values()]
      .map((sandbox) => sandbox.info())
      .sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  }

  get(id: SandboxId): SandboxInfo {
    return this.#sandbox(id).info();
  }

  destroy(id: SandboxId): Promise<void> {
    const underWay = this.#destroying.get(id);
    if (underWay !== undefined) return underWay;
    let sandbox: Sandbox;
    try {
      sandbox = this.#sandbox(id);
    } catch (error) {
      return Promise.reject(error);
    }
    const done = this.#destroy(sandbox).finally(() => this.#destroying.delete(id));
    this.#destroying.set(id, done);
    return done;
  }

  async exec(id: SandboxId, request: ShellExecRequest): Promise<ExecRecord> {
    return execShell(this.#sandbox(id), request);
  }

  async execStream(id: SandboxId, start: ExecStart): Promise<ExecSession> {
    return execStream(this.#sandbox(id), start);
  }

  async execBackground(id: SandboxId, request: ShellExecRequest): Promise<JobInfo> {
    const sandbox = this.#sandbox(id);
    const row = await execJob(sandbox, request);
    return this.job(id, row.seq);
  }

  jobs(id: SandboxId): readonly JobInfo[] {
    this.#sandbox(id);
    const { store } = this.#world;
    return store.read(() => store.execs.jobs(id)).map(jobOf);
  }

  job(id: SandboxId, jobId: number): JobInfo {
    return jobOf(this.#jobRow(id, jobId));
  }

  async *jobLog(
    ...[id, jobId, after, signal]: Parameters<Engine['jobLog']>
  ): AsyncIterableIterator<JobLogLine> {
    const { key } = this.#jobRow(id, jobId);
    const { store } = this.#world;
    const run = () => this.#sandboxes.get(id)?.runs.get(jobId);
    yield* followJobLog({ store, key, run }, after, signal);
  }

  async killJob(id: SandboxId, jobId: number): Promise<void> {
    const { store } = this.#world;
    const row = this.#jobRow(id, jobId);
    const run = this.#sandbox(id).runs.get(jobId);
    if (run === undefined) return;
    if (!row.killWanted) store.transaction(() => store.execs.wantKill(row.key));
    run.kill();
    await run.done;
  }

  async activate(id: SandboxId, module: ModuleName): Promise<SandboxInfo> {
    return this.#operate(id, async (sandbox) => {
      await activate(sandbox, module);
      return sandbox.info();
    });
  }

  async snapshot(id: SandboxId, label?: SnapshotLabel): Promise<Taken> {
    return this.#operate(id, (sandbox) => snapshot(sandbox, label));
  }

  async restore(id: SandboxId, label: SnapshotLabel): Promise<SandboxInfo> {
    return this.#operate(id, async (sandbox) => {
      await restore(sandbox, label);
      return sandbox.info();
    });
  }

  networkRules(id: SandboxId): NetworkRules & { readonly isInForce: boolean } {
    return { ...this.#sandbox(id).rules, isInForce: this.#world.network.isInForce(id) };
  }

  async setPolicy(id: SandboxId, policy: PolicySource): Promise<void> {
    await this.#sandbox(id).setPolicy(policy);
  }

  /** Of every sandbox that is not on its way out. */
  #rules(): ReadonlyMap<SandboxId, NetworkRules> {
    const all = [...this.#sandboxes.values()].filter((sandbox) => sandbox.state.phase !== 'destroying');
    return new Map(all.map((sandbox) => [sandbox.row.id, sandbox.rules]));
  }

  logs(id: SandboxId, page = { after: 0, limit: limits.execHistoryMax }): readonly ExecRecord[] {
    this.#sandbox(id);
    const { store } = this.#world;
    return store.read(() => store.execs.finished(id, page).map((row) => this.#record(row)));
  }

  async metrics(): Promise<readonly Metric[]> {
    return engineMetrics(this.#world, [...this.#sandboxes.values()]);
  }

  /** Leaves sandboxes and commands running. Waits for operations in progress and for files being written. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#reaper[Symbol.dispose]();
    const stopping = new AppError('shutting_down', 'Cannot begin an operation: the daemon stops');
    const sandboxes = [...this.#sandboxes.values()];
    for (const sandbox of sandboxes) sandbox.mailbox.close(stopping);
    await Promise.all(sandboxes.map((sandbox) => sandbox.mailbox.idle()));
    this.#unsubscribe();
    for (const sandbox of sandboxes) sandbox.close();
    await this.#world.files.settle();
  }

  #sandbox(id: SandboxId): Sandbox {
    const sandbox = this.#sandboxes.get(id);
    if (sandbox === undefined) throw new AppError('sandbox_not_found', `Cannot find sandbox "${id}"`);
    return sandbox;
  }

  /** Runs an operation in its turn. One whose sandbox is being removed finds it gone. */
  #operate<T>(id: SandboxId, operation: (sandbox: Sandbox) => Promise<T>): Promise<T> {
    const sandbox = this.#sandbox(id);
    return sandbox.mailbox.post(async () => {
      if (sandbox.state.phase === 'destroying') {
        throw new AppError('sandbox_not_found', `Cannot change sandbox "${id}": it is being removed`);
      }
      return operation(sandbox);
    });
  }

  #jobRow(id: SandboxId, jobId: number): ExecRow {
    this.#sandbox(id);
    const { store } = this.#world;
    const row = store.read(() => store.execs.get(id, jobId));
    if (row?.kind !== 'job')
      throw new AppError('job_not_found', `Cannot find job ${jobId} of sandbox "${id}"`);
    return row;
  }

  #record(row: ExecRow): ExecRecord {
    const { store } = this.#world;
    if (row.end === undefined) throw new AppError('internal', `Exec ${row.seq} has not ended`);
    const bytesMax = limits.answerStreamBytesMax;
    const head = (stream: 'stdout' | 'stderr'): Buffer =>
      row.kind === 'job' ? jobHead(store, row.key, stream) : store.output.read(row.key, stream, bytesMax);
    return recordOf(row, row.end, { stdout: head('stdout'), stderr: head('stderr') });
  }

  #reserve(id: SandboxId): void {
    if (this.#sandboxes.has(id) || this.#reserved.has(id)) {
      throw new AppError('sandbox_exists', `Cannot create sandbox "${id}": it exists`);
    }
    if (this.#sandboxes.size + this.#reserved.size >= this.#sandboxesMax) {
      throw new AppError(
        'sandbox_limit',
        `Cannot create sandbox "${id}": there are ${this.#sandboxesMax}, the most SQUASH_MAX_SANDBOXES allows`,
      );
    }
    this.#reserved.add(id);
  }

  async #destroy(sandbox: Sandbox): Promise<void> {
    const { id } = sandbox.row;
    await sandbox.mailbox.post(() => removeSandbox(sandbox));
    if (this.#sandboxes.get(id) === sandbox) this.#sandboxes.delete(id);
    this.#world.counters.destroyed += 1;
    if (sandbox.snapshots.some((taken) => taken.digest !== null)) this.#collect();
  }

  /** Removes trees that nobody uses, behind everybody's back. */
  #collect(): void {
    const { layerLock, layers, log } = this.#world;
    layerLock
      .exclusive(() => layers.collect(layersInUse(this.#sandboxes.values()).trees))
      .then(
        (count) => count > 0 && log.info('layers.collect', { count }),
        // They only take room; the next daemon tries again.
        (error: unknown) => log.warn('layers.collect', { error }),
      );
  }

  #reap(id: SandboxId): void {
    if (this.#destroying.has(id)) return;
    this.#world.log.info('sandbox.reap', { sandbox: id });
    this.destroy(id).then(
      () => {
        this.#world.counters.reaped += 1;
      },
      // Tried again at the reaper's next look.
      (error: unknown) => this.#world.log.error('sandbox.reap', { sandbox: id, error }),
    );
  }
}

function strangerError(id: SandboxId): AppError {
  return new AppError(
    'sandbox_exists',
    `Cannot create sandbox "${id}": its directory exists but the database does not know it: "squash doctor --repair" takes it in`,
  );
}
