/** Volumes: files that outlive the sandboxes that have them. */
import { type Connection, type Signal, startMsMax } from './connection.ts';
import { everyItem } from './pages.ts';
import type { Operations, VolumeCreate, VolumeInfo, VolumeSnapshotCreate } from './records.gen.ts';

export type VolumeFilter = Operations['volume.list']['query'] & Signal;

export class Volumes {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `volume.create` @throws Conflict, LimitReached */
  async create({ signal, ...body }: VolumeCreate & Signal): Promise<VolumeInfo> {
    return await this.#connection.call('volume.create', { body, signal, takesMs: startMsMax });
  }

  /** `volume.list` */
  list({ signal, ...query }: VolumeFilter = {}): AsyncGenerator<VolumeInfo, void, void> {
    return everyItem(this.#connection, 'volume.list', { query, signal });
  }

  /** `volume.get`: by name or id. @throws NotFound */
  async get(volume: string, options: Signal = {}): Promise<VolumeInfo> {
    return await this.#connection.call('volume.get', { path: { volume }, ...options });
  }

  /** `volume.remove`: with its files. @throws Conflict while a sandbox has it */
  async remove(volume: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('volume.remove', { path: { volume }, ...options });
  }

  /** `volume.snapshot`: another volume with its files as they are now. */
  async snapshot(volume: string, { signal, ...body }: VolumeSnapshotCreate & Signal): Promise<VolumeInfo> {
    const options = { path: { volume }, body, signal, takesMs: startMsMax };
    return await this.#connection.call('volume.snapshot', options);
  }
}
