/** Who may see which port of which sandbox, as far as somebody has said so. It goes with its sandbox. */
import type { SandboxId } from '@squash/contract/ids';
import { type PortAccess, portAccessSchema } from '@squash/contract/ports';
import type { DatabaseSync } from 'node:sqlite';

export class PortTable {
  readonly #get;
  readonly #set;
  readonly #all;

  constructor(database: DatabaseSync) {
    this.#get = database.prepare('SELECT access FROM ports WHERE sandbox = ? AND port = ?');
    this.#all = database.prepare('SELECT port, access FROM ports WHERE sandbox = ? ORDER BY port');
    this.#set = database.prepare(
      'INSERT INTO ports (sandbox, port, access) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET access = excluded.access',
    );
  }

  /** Of a port that nobody has spoken of, and of one whose row says what this release does not know: `token`. */
  access(id: SandboxId, port: number): PortAccess {
    return portAccessSchema.catch('token').parse(this.#get.get(id, port)?.['access']);
  }

  all(id: SandboxId): ReadonlyMap<number, PortAccess> {
    const rows = this.#all.all(id);
    return new Map(
      rows.map((row) => [Number(row['port']), portAccessSchema.catch('token').parse(row['access'])]),
    );
  }

  set(id: SandboxId, port: number, access: PortAccess): void {
    this.#set.run(id, port, access);
  }
}
