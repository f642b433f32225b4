/** The modules that sandboxes are stacked from. */
import { type Connection, type Signal, startMsMax } from './connection.ts';
import { everyItem } from './pages.ts';
import type { Module, Operations } from './records.gen.ts';
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
  async get(name: string, options: Signal = {}): Promise<Module> {
    return await this.#connection.call('module.get', { path: { name }, ...options });
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

  /** `module.remove` @throws Conflict while a sandbox stands on it */
  async remove(name: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('module.remove', { path: { name }, ...options });
  }
}
