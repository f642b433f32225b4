/** The modules that sandboxes are stacked from. */
import { type Connection, type Signal, startMsMax } from './connection.ts';
import { downloadFile } from './local-file.ts';
import { everyItem } from './pages.ts';
import type { GcAnswer, Module, ModuleDetails, ModuleManifest, Operations } from './records.gen.ts';
import type { Upload } from './transport.ts';

export type ModuleFilter = Operations['module.list']['query'] & Signal;

export class Modules {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `module.list` */
  list({ signal, ...query }: ModuleFilter = {}): AsyncGenerator<Module, void, void> {
    return everyItem(this.#connection, 'module.list', { query, signal });
  }

  /** `module.get` @throws NotFound */
  async get(name: string, options: Signal = {}): Promise<ModuleDetails> {
    return await this.#connection.call('module.get', { path: { name }, ...options });
  }

  /** `module.describe`: what it is made of, as who built it says. @throws NotFound, BadRequest where the manifest is of another file */
  async describe(name: string, manifest: ModuleManifest, options: Signal = {}): Promise<ModuleDetails> {
    return await this.#connection.call('module.describe', { path: { name }, body: manifest, ...options });
  }

  /** `module.verify`: reads all of it again. @throws NotFound, SquashError (`layer_corrupt`) where it is not what its manifest says */
  async verify(name: string, options: Signal = {}): Promise<ModuleDetails> {
    return await this.#connection.call('module.verify', {
      path: { name },
      takesMs: startMsMax,
      ...options,
    });
  }

  /** `module.import`: a squashfs file, at most 16 GiB. Another one of that name is replaced only with `replace`. @throws BadRequest, Conflict */
  async import(
    name: string,
    file: Exclude<Upload, string>,
    { signal, ...query }: Operations['module.import']['query'] & Signal = {},
  ): Promise<Module> {
    const takesMs = startMsMax;
    return await this.#connection.call('module.import', {
      path: { name },
      query,
      upload: file,
      signal,
      takesMs,
    });
  }

  /** `module.download`: the squashfs file. With a name it becomes that file when all of it is there. @throws NotFound */
  async download(name: string, local: string, options: Signal = {}): Promise<void> {
    await downloadFile(this.downloadParts(name, options), local);
  }

  /** `module.download`: the same as it comes. */
  async *downloadParts(name: string, options: Signal = {}): AsyncGenerator<Uint8Array, void, void> {
    const asked = { path: { name }, takesMs: startMsMax, ...options };
    yield* (await this.#connection.open('module.download', asked)).body;
  }

  /** `module.gc`: removes unpacked layers that no sandbox stands on; with `dryRun` it only tells which would go. */
  async gc({ dryRun, ...options }: { readonly dryRun?: boolean } & Signal = {}): Promise<GcAnswer> {
    const body = { dry_run: dryRun ?? false };
    return await this.#connection.call('module.gc', { body, takesMs: startMsMax, ...options });
  }

  /** `module.remove` @throws Conflict while a sandbox stands on it */
  async remove(name: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('module.remove', { path: { name }, ...options });
  }
}
