/**
 * Tunnels that relays carry, as the next process must know them: a tunnel outlives the process that decided it, and a
 * policy that changes afterwards must reach it all the same.
 *
 * A row is written before the relay can have the tunnel and goes, in batches, after its last word. What a newcomer
 * would get wrong: a row may be of a tunnel that is long gone (its relay died, or this process before it could note the
 * end). It then costs a row and a reset that nobody hears, until the sandbox is started again.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Log } from '@squash/base/log';
import type { ConnectionName } from '../channel/launch-channel.ts';
import { egressLimits as limits } from '../limits.ts';
import type { Destination } from '@squash/policy/policy';
import type { FirstBytes } from './first-bytes.ts';

export interface Tunnel {
  readonly destination: Destination;
  /** What it was judged by; `undefined` where no byte was looked at. */
  readonly first: FirstBytes | undefined;
  /** Every address it may have been connected to. */
  readonly addresses: readonly string[];
}

export class TunnelRows {
  readonly #database: DatabaseSync;
  readonly #log: Log;
  readonly #put: StatementSync;
  readonly #delete: StatementSync;
  #ended: ConnectionName[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isFrozen = false;

  constructor(database: DatabaseSync, log: Log) {
    this.#log = log;
    this.#database = database;
    this.#put = database.prepare('INSERT OR REPLACE INTO tunnels VALUES (?, ?, ?, ?)');
    this.#delete = database.prepare('DELETE FROM tunnels WHERE instance = ? AND connection = ?');
  }

  /** False where it can't be written: then there must be no tunnel. */
  tryPut(sandbox: string, name: ConnectionName, tunnel: Tunnel): boolean {
    try {
      this.put(sandbox, name, tunnel);
      return true;
    } catch (error) {
      this.#log.guest(sandbox).error('tunnel.fault', { error });
      return false;
    }
  }

  /** @throws SQLite's error */
  put(sandbox: string, { instance, connection }: ConnectionName, tunnel: Tunnel): void {
    this.#put.run(instance, connection, sandbox, JSON.stringify(tunnel));
  }

  remove(name: ConnectionName): void {
    if (this.#isFrozen) return;
    this.#ended.push(name);
    this.#timer ??= setTimeout(() => this.#flush(), limits.decisionsFlushMs);
  }

  /** Of this instance of a sandbox; those of earlier ones have ended with them. */
  of(sandbox: string, instance: number): (readonly [connection: number, tunnel: Tunnel])[] {
    this.#flush();
    try {
      this.#database
        .prepare('DELETE FROM tunnels WHERE sandbox = ? AND instance <> ?')
        .run(sandbox, instance);
    } catch {
      // A full disk: they stay until the next time, and nobody asks for them.
    }
    return this.#database
      .prepare('SELECT connection, tunnel FROM tunnels WHERE instance = ? ORDER BY connection')
      .all(instance)
      .map((row) => [Number(row['connection']), JSON.parse(String(row['tunnel'])) as Tunnel]);
  }

  forget(sandbox: string): void {
    this.#database.prepare('DELETE FROM tunnels WHERE sandbox = ?').run(sandbox);
  }

  /** From now on nothing is removed: this process ends, the tunnels do not. */
  freeze(): void {
    this.#flush();
    this.#isFrozen = true;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const ended = this.#ended;
    this.#ended = [];
    if (ended.length === 0) return;
    this.#database.exec('BEGIN');
    try {
      for (const { instance, connection } of ended) this.#delete.run(instance, connection);
      this.#database.exec('COMMIT');
    } catch {
      // A full disk: rows of tunnels that have ended stay, which costs a reset that nobody hears.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
    }
  }
}
