/** One sandbox: what it is, what runs in it, and its end. */
import { Changes } from './changes.ts';
import { type Command, commandOf, type ExecOptions, type StartOptions, takesMsOf } from './commands.ts';
import { haveImage } from './images.ts';
import { type Connection, fieldOf, sharedConnection, type Signal, startMsMax } from './connection.ts';
import { NotFound } from './errors.ts';
import { type CellOptions, Contexts, runCell } from './contexts.ts';
import { type ExecResult, execResult } from './exec-result.ts';
import type { Execution } from './execution.ts';
import { Files } from './files.ts';
import { Mounts } from './mounts.ts';
import { Network } from './network.ts';
import { everyItem } from './pages.ts';
import { Ports } from './ports.ts';
import { Process } from './process.ts';
import { Processes } from './processes.ts';
import type {
  ContextCreate,
  Operations,
  RefusedPaths,
  SandboxChange,
  SandboxCreate,
  Sandbox as SandboxRecord,
  SandboxUsage,
  SnapshotTaken,
} from './records.gen.ts';
import { type RestoreOptions, Snapshots } from './snapshots.ts';

export type CreateOptions = SandboxCreate & Signal;
export type SandboxFilter = Operations['sandbox.list']['query'] & Signal;
export type RefusedPathsFilter = Operations['sandbox.paths']['query'] & Signal;
export type RemoveOptions = Operations['sandbox.destroy']['query'] & Signal;
export type PauseOptions = NonNullable<Operations['sandbox.pause']['body']> & Signal;

export interface RunCodeOptions extends CellOptions, Pick<ContextCreate, 'language'> {}

export interface SandboxModules {
  /** `module.activate`: another module on top of it, while it runs. @throws NotFound, Conflict */
  readonly activate: (module: string, options?: Signal) => Promise<SandboxRecord>;
}

/** For whoever calls `Sandbox` and not a client's `sandboxes`. */
export interface WithClient {
  /** A `Squash`; one made from the environment unless given. */
  readonly client?: { readonly connection: Connection };
}

export class Sandbox implements AsyncDisposable {
  readonly id: string;
  readonly processes: Processes;
  readonly contexts: Contexts;
  readonly files: Files;
  readonly ports: Ports;
  readonly network: Network;
  readonly snapshots: Snapshots;
  readonly mounts: Mounts;
  readonly changes: Changes;
  readonly modules: SandboxModules;
  readonly #connection: Connection;
  #info: SandboxRecord;
  #isOwned: boolean;

  /** Programs call `Sandbox.create` or `Sandbox.get`. */
  constructor(connection: Connection, record: SandboxRecord, { isOwned }: { readonly isOwned: boolean }) {
    this.#connection = connection;
    this.id = fieldOf(record, 'id', 'string') as string;
    this.#info = record;
    this.#isOwned = isOwned;
    this.processes = new Processes(connection, this.id);
    this.contexts = new Contexts(connection, this.id);
    this.files = new Files(connection, this.id);
    this.ports = new Ports(connection, this.id);
    this.network = new Network(connection, this.id);
    this.snapshots = new Snapshots(connection, this.id);
    this.mounts = new Mounts(connection, this.id);
    this.changes = new Changes(connection, this.id);
    this.modules = { activate: async (module, options) => await this.#activate(module, options) };
  }

  /** `sandbox.create` with the client of the environment, or the one given: see `Sandboxes.create`. */
  static async create({ client, ...options }: CreateOptions & WithClient = {}): Promise<Sandbox> {
    return await createSandbox(client?.connection ?? sharedConnection(), options);
  }

  /** `sandbox.get`: see `Sandboxes.get`. */
  static async get(id: string, { client, ...options }: Signal & WithClient = {}): Promise<Sandbox> {
    return await getSandbox(client?.connection ?? sharedConnection(), id, options);
  }

  /** `sandbox.list`: see `Sandboxes.list`. */
  static list({ client, ...filter }: SandboxFilter & WithClient = {}): AsyncGenerator<Sandbox, void, void> {
    return listSandboxes(client?.connection ?? sharedConnection(), filter);
  }

  /** As it was when it was made, found, or looked at last. */
  get info(): SandboxRecord {
    return this.#info;
  }

  /** `sandbox.get`: looks again. @throws NotFound */
  async refresh(options: Signal = {}): Promise<SandboxRecord> {
    return this.#seen(await this.#connection.call('sandbox.get', { ...this.#path, ...options }));
  }

  /** `sandbox.update`: name, labels, environment, limits, times or policy; all of it or nothing. */
  async update({ signal, ...body }: SandboxChange & Signal): Promise<SandboxRecord> {
    return this.#seen(await this.#connection.call('sandbox.update', { ...this.#path, body, signal }));
  }

  /** `sandbox.pause`: it stands still, with its memory or with its files alone (`keep`). */
  async pause({ signal, ...body }: PauseOptions = {}): Promise<SandboxRecord> {
    const options = { ...this.#path, body, signal, takesMs: startMsMax };
    return this.#seen(await this.#connection.call('sandbox.pause', options));
  }

  /** `sandbox.resume`: it goes on. */
  async resume(options: Signal = {}): Promise<SandboxRecord> {
    const takesMs = startMsMax;
    return this.#seen(await this.#connection.call('sandbox.resume', { ...this.#path, ...options, takesMs }));
  }

  /** `sandbox.usage`: processor, memory, disk and network, now and in the last ten minutes. */
  async usage(options: Signal = {}): Promise<SandboxUsage> {
    return await this.#connection.call('sandbox.usage', { ...this.#path, ...options });
  }

  /** `sandbox.paths`: which paths its programs were refused, where it was made with `from.host.trace_paths`. */
  async refusedPaths({ signal, ...query }: RefusedPathsFilter = {}): Promise<RefusedPaths> {
    return await this.#connection.call('sandbox.paths', { ...this.#path, query, signal });
  }

  /** `sandbox.create` from this one: its files, limits, policy and environment, where the options name no others. It goes on. */
  async fork(options: Omit<CreateOptions, 'from'> = {}): Promise<Sandbox> {
    return await createSandbox(this.#connection, { ...options, from: { sandbox: this.id } });
  }

  /**
   * `process.exec`: runs a command and waits for its end. A string is a shell line, a list is words that no shell sees. `timeout_ms` is
   * 300,000 unless given. A command that fails is a result; `check()` makes an error of it. @throws NotFound, Conflict, LimitReached
   */
  async exec(command: Command, { signal, ...options }: ExecOptions = {}): Promise<ExecResult> {
    const body = { ...commandOf(command), ...options };
    const takesMs = takesMsOf(options);
    const record = await this.#connection.call('process.exec', { ...this.#path, body, signal, takesMs });
    fieldOf(record, 'exit_code', 'number');
    return execResult(record);
  }

  /**
   * `process.start`: starts a command that runs on by itself, also when this program has ended. There is no time-out unless `timeout_ms` is
   * given; `stdin: true` or a `pty` takes input. @throws NotFound, Conflict, LimitReached
   */
  async start(command: Command, { signal, ...options }: StartOptions = {}): Promise<Process> {
    const body = { ...commandOf(command), ...options };
    const record = await this.#connection.call('process.start', { ...this.#path, body, signal });
    return new Process(this.#connection, this.id, record);
  }

  /**
   * `context.run` in the default context of a language (`python` unless given), which is made when it is first used and keeps what cells
   * define. A cell that raises is a result with its `error`. @throws Conflict where the layer is missing or the kernel has died
   */
  async runCode(code: string, { language = 'python', ...options }: RunCodeOptions = {}): Promise<Execution> {
    const path = { id: this.id, context: `default-${language}` };
    return await runCell(this.#connection, path, { code, ...options });
  }

  /** `snapshot.create`: see `Snapshots.create`. */
  async snapshot(label?: string, options: Signal = {}): Promise<SnapshotTaken> {
    return await this.snapshots.create({ ...(label !== undefined && { label }), ...options });
  }

  /** `snapshot.restore`: see `Snapshots.restore`. */
  async restore(label: string, options: RestoreOptions = {}): Promise<SandboxRecord> {
    return this.#seen(await this.snapshots.restore(label, options));
  }

  async #activate(module: string, options: Signal = {}): Promise<SandboxRecord> {
    const body = { module };
    const takesMs = startMsMax;
    return this.#seen(
      await this.#connection.call('module.activate', { ...this.#path, body, takesMs, ...options }),
    );
  }

  /** `sandbox.destroy`: ends everything in it and removes it with its files and snapshots. @throws NotFound */
  async remove({ signal, ...query }: RemoveOptions = {}): Promise<void> {
    await this.#connection.call('sandbox.destroy', { ...this.#path, query, signal });
    this.#isOwned = false;
  }

  /** Nothing removes it at the end. */
  keep(): this {
    this.#isOwned = false;
    return this;
  }

  /** Removes what `create` or `fork` made; what is gone already is as well. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isOwned) return;
    try {
      await this.remove();
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
    }
  }

  get #path(): { readonly path: { readonly id: string } } {
    return { path: { id: this.id } };
  }

  #seen(record: SandboxRecord): SandboxRecord {
    fieldOf(record, 'id', 'string');
    this.#info = record;
    return record;
  }
}

export async function createSandbox(
  connection: Connection,
  { signal, ...body }: CreateOptions,
): Promise<Sandbox> {
  if (body.image !== undefined) await haveImage(connection, body.image, { signal });
  const record = await connection.call('sandbox.create', { body, signal, takesMs: startMsMax });
  return new Sandbox(connection, record, { isOwned: true });
}

export async function getSandbox(connection: Connection, id: string, options: Signal): Promise<Sandbox> {
  const record = await connection.call('sandbox.get', { path: { id }, ...options });
  return new Sandbox(connection, record, { isOwned: false });
}

export async function* listSandboxes(
  connection: Connection,
  { signal, ...query }: SandboxFilter,
): AsyncGenerator<Sandbox, void, void> {
  for await (const record of everyItem(connection, 'sandbox.list', { query, signal }))
    yield new Sandbox(connection, record, { isOwned: false });
}
