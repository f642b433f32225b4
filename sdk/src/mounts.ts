/** Volumes and directories of the host that a sandbox has. */
import type { Connection, Signal } from './connection.ts';
import { everyItem } from './pages.ts';
import type { MountInfo, MountWish } from './records.gen.ts';

export class Mounts {
  readonly #connection: Connection;
  readonly #sandbox: string;

  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection;
    this.#sandbox = sandbox;
  }

  /** `mount.attach` @throws NotFound, Conflict, Unauthorized */
  async attach(wish: MountWish, options: Signal = {}): Promise<MountInfo> {
    return await this.#connection.call('mount.attach', {
      path: { id: this.#sandbox },
      body: wish,
      ...options,
    });
  }

  /** `mount.list` */
  list(options: Signal = {}): AsyncGenerator<MountInfo, void, void> {
    return everyItem(this.#connection, 'mount.list', { path: { id: this.#sandbox }, ...options });
  }

  /** `mount.detach` @throws Conflict where programs use it */
  async detach(mount: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('mount.detach', { path: { id: this.#sandbox, mount }, ...options });
  }
}
