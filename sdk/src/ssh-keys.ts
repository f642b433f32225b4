/** Public keys that log in over SSH, where the daemon has its gateway. */
import { type Connection, type Signal } from './connection.ts';
import { everyItem } from './pages.ts';
import type { Operations, SshKey, SshKeyCreate } from './records.gen.ts';

export type SshKeyFilter = Operations['ssh_key.list']['query'] & Signal;

export class SshKeys {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `ssh_key.create`: lets it log in, into its owner's sandboxes. */
  async create({ signal, ...body }: SshKeyCreate & Signal): Promise<SshKey> {
    return await this.#connection.call('ssh_key.create', { body, signal });
  }

  /** `ssh_key.list` */
  list({ signal, ...query }: SshKeyFilter = {}): AsyncGenerator<SshKey, void, void> {
    return everyItem(this.#connection, 'ssh_key.list', { query, signal });
  }

  /** `ssh_key.get` @throws NotFound */
  async get(key: string, options: Signal = {}): Promise<SshKey> {
    return await this.#connection.call('ssh_key.get', { path: { key }, ...options });
  }

  /** `ssh_key.remove`: nobody logs in with it any more. */
  async remove(key: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('ssh_key.remove', { path: { key }, ...options });
  }
}
