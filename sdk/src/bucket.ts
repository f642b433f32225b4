/** The bucket that the daemon keeps modules and snapshots in. */
import { type Connection, type Signal, startMsMax } from './connection.ts';
import type { Bucket as BucketInfo, BucketList, Operations } from './records.gen.ts';

export type BucketPush = Operations['bucket.push']['body'];
export type BucketPull = Operations['bucket.pull']['body'];

export class Bucket {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `bucket.get` @throws NotFound where the daemon has none */
  async get(options: Signal = {}): Promise<BucketInfo> {
    return await this.#connection.call('bucket.get', options);
  }

  /** `bucket.list` */
  async list({ prefix = '', ...options }: { readonly prefix?: string } & Signal = {}): Promise<BucketList> {
    return await this.#connection.call('bucket.list', { query: { prefix }, ...options });
  }

  /** `bucket.push`: resolves when it is there. @throws NotFound, Conflict where the bucket has another one of its name */
  async push(wish: BucketPush, options: Signal = {}): Promise<void> {
    await this.#connection.call('bucket.push', { body: wish, takesMs: startMsMax, ...options });
  }

  /** `bucket.pull`: resolves when it is here. @throws NotFound */
  async pull(wish: BucketPull, options: Signal = {}): Promise<void> {
    await this.#connection.call('bucket.pull', { body: wish, takesMs: startMsMax, ...options });
  }

  /** `bucket.remove`: an object by its key, for every machine. */
  async remove(key: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('bucket.remove', { query: { key }, ...options });
  }
}
