/** Owners of sandboxes, and what each may have. */
import { type Connection, type Signal } from './connection.ts';
import { everyItem } from './pages.ts';
import type { Operations, Owner, QuotaChange } from './records.gen.ts';

export type OwnerFilter = Operations['owner.list']['query'] & Signal;

export class Owners {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `owner.list` */
  list({ signal, ...query }: OwnerFilter = {}): AsyncGenerator<Owner, void, void> {
    return everyItem(this.#connection, 'owner.list', { query, signal });
  }

  /** `owner.quota`: what it may have, and has. */
  async quota(owner: string, options: Signal = {}): Promise<Owner> {
    return await this.#connection.call('owner.quota', { path: { owner }, ...options });
  }

  /** `owner.set_quota` */
  async setQuota(owner: string, { signal, ...body }: QuotaChange & Signal): Promise<Owner> {
    return await this.#connection.call('owner.set_quota', { path: { owner }, body, signal });
  }
}
