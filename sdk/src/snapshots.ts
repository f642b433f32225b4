/** The snapshots of a sandbox. */
import { type Connection, type Signal, startMsMax } from './connection.ts';
import { downloadFile } from './local-file.ts';
import { everyItem } from './pages.ts';
import type {
  DiffPage,
  Operations,
  Sandbox as SandboxRecord,
  Snapshot,
  SnapshotChange,
  SnapshotCreate,
  SnapshotRestore,
  SnapshotTaken,
} from './records.gen.ts';
import type { Upload } from './transport.ts';

export type SnapshotFilter = Operations['snapshot.list']['query'] & Signal;
export type DiffOptions = Omit<Operations['snapshot.diff']['query'], 'cursor'> & Signal;

export type RestoreOptions = Omit<SnapshotRestore, 'snapshot'> & Signal;

export class Snapshots {
  readonly #connection: Connection;
  readonly #sandbox: string;

  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection;
    this.#sandbox = sandbox;
  }

  /** `snapshot.create`: of its files as they are now. It stands still while they are read. @throws Conflict, LimitReached */
  async create({ signal, ...body }: SnapshotCreate & Signal = {}): Promise<SnapshotTaken> {
    const options = { path: { id: this.#sandbox }, body, signal, takesMs: startMsMax };
    return await this.#connection.call('snapshot.create', options);
  }

  /** `snapshot.list` */
  list({ signal, ...query }: SnapshotFilter = {}): AsyncGenerator<Snapshot, void, void> {
    return everyItem(this.#connection, 'snapshot.list', { path: { id: this.#sandbox }, query, signal });
  }

  /** `snapshot.get` @throws NotFound */
  async get(label: string, options: Signal = {}): Promise<Snapshot> {
    return await this.#connection.call('snapshot.get', { path: this.#pathOf(label), ...options });
  }

  /** `snapshot.update`: another label, other labels. */
  async update(label: string, { signal, ...body }: SnapshotChange & Signal): Promise<Snapshot> {
    return await this.#connection.call('snapshot.update', { path: this.#pathOf(label), body, signal });
  }

  /** `snapshot.remove`: what lies on it goes on. */
  async remove(label: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('snapshot.remove', { path: this.#pathOf(label), ...options });
  }

  /** `snapshot.restore`: puts the sandbox back to it. What runs in it ends; with `memory` the processes of then go on. */
  async restore(label: string, { signal, ...body }: RestoreOptions = {}): Promise<SandboxRecord> {
    return await this.#connection.call('snapshot.restore', {
      path: { id: this.#sandbox },
      body: { snapshot: label, ...body },
      takesMs: startMsMax,
      signal,
    });
  }

  /** `snapshot.diff`: what was added, changed and removed, against its modules, `current`, or another snapshot. */
  diff(
    label: string,
    { signal, ...query }: DiffOptions = {},
  ): AsyncGenerator<DiffPage['items'][number], void, void> {
    return everyItem(this.#connection, 'snapshot.diff', { path: this.#pathOf(label), query, signal });
  }

  /** `snapshot.download`: one squashfs file, which is whole. With a name it becomes that file when all of it is there. */
  async download(label: string, local: string, options: Signal = {}): Promise<void> {
    await downloadFile(this.downloadParts(label, options), local);
  }

  /** `snapshot.download`: the same as it comes. */
  async *downloadParts(label: string, options: Signal = {}): AsyncGenerator<Uint8Array, void, void> {
    const asked = { path: this.#pathOf(label), takesMs: startMsMax, ...options };
    yield* (await this.#connection.open('snapshot.download', asked)).body;
  }

  /** `snapshot.upload`: a squashfs file becomes a snapshot, to which the sandbox can be restored. @throws BadRequest, Conflict */
  async upload(label: string, file: Exclude<Upload, string>, options: Signal = {}): Promise<Snapshot> {
    const asked = { path: this.#pathOf(label), upload: file, takesMs: startMsMax, ...options };
    return await this.#connection.call('snapshot.upload', asked);
  }

  #pathOf(label: string): { readonly id: string; readonly label: string } {
    return { id: this.#sandbox, label };
  }
}
