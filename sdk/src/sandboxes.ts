/** The daemon's sandboxes: to make one, to find one, to list them. */
import type { Connection, Signal } from './connection.ts';
import {
  createSandbox,
  type CreateOptions,
  getSandbox,
  listSandboxes,
  type Sandbox,
  type SandboxFilter,
} from './sandbox.ts';

export class Sandboxes {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * `sandbox.create`: from layers, a snapshot or another sandbox (`from`). It takes commands when this returns. `await using` removes it at
   * the end. @throws BadRequest, LimitReached
   */
  async create(options: CreateOptions = {}): Promise<Sandbox> {
    return await createSandbox(this.#connection, options);
  }

  /** `sandbox.get`: one that is there; nothing removes it at the end. @throws NotFound */
  async get(id: string, options: Signal = {}): Promise<Sandbox> {
    return await getSandbox(this.#connection, id, options);
  }

  /** `sandbox.list`: those that the caller may see, newest first. */
  list(filter: SandboxFilter = {}): AsyncGenerator<Sandbox, void, void> {
    return listSandboxes(this.#connection, filter);
  }
}
