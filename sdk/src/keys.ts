/** Keys: who may ask for what. */
import { type Connection, type Signal } from './connection.ts';
import { everyItem } from './pages.ts';
import type { Key, KeyCreate, KeyCreated, KeySelf, Operations } from './records.gen.ts';

export type KeyFilter = Operations['key.list']['query'] & Signal;

export class Keys {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `key.create`: its token is in this answer and nowhere else. */
  async create({ signal, ...body }: KeyCreate & Signal): Promise<KeyCreated> {
    return await this.#connection.call('key.create', { body, signal });
  }

  /** `key.list` */
  list({ signal, ...query }: KeyFilter = {}): AsyncGenerator<Key, void, void> {
    return everyItem(this.#connection, 'key.list', { query, signal });
  }

  /** `key.self`: who asks. */
  async self(options: Signal = {}): Promise<KeySelf> {
    return await this.#connection.call('key.self', options);
  }

  /** `key.get` @throws NotFound */
  async get(key: string, options: Signal = {}): Promise<Key> {
    return await this.#connection.call('key.get', { path: { key }, ...options });
  }

  /** `key.remove`: whoever has it may do nothing any more. */
  async remove(key: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('key.remove', { path: { key }, ...options });
  }
}
