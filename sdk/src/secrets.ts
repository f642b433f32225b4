/** The secrets of the installation. Nobody reads a value back. */
import { type Connection, type Signal } from './connection.ts';
import type { Secret, SecretChange } from './records.gen.ts';

export class Secrets {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `secret.list` */
  async list(options: Signal = {}): Promise<readonly Secret[]> {
    return await this.#connection.call('secret.list', options);
  }

  /** `secret.set`: makes it or changes the fields that are given. */
  async set(secret: string, { signal, ...body }: SecretChange & Signal): Promise<Secret> {
    return await this.#connection.call('secret.set', { path: { secret }, body, signal });
  }

  /** `secret.remove` @throws NotFound */
  async remove(secret: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('secret.remove', { path: { secret }, ...options });
  }
}
