/**
 * The daemon's state: one SQLite file, used synchronously by the one process that holds the data directory.
 *
 * Synchronous on purpose: a small WAL transaction costs some tens of microseconds, less than a thread hop, and
 * nothing can come between the statements of a transaction. Never `await` inside `transaction`.
 */
import type { DatabaseSync } from 'node:sqlite';
import { openDatabase, translate } from './database.ts';
import { ExecTable } from './execs.ts';
import { OutputTable } from './output.ts';
import { SandboxTable } from './sandboxes.ts';

export class Store implements Disposable {
  readonly path: string;
  readonly sandboxes: SandboxTable;
  readonly execs: ExecTable;
  readonly output: OutputTable;
  readonly #database: DatabaseSync;
  readonly #begin;
  readonly #commit;
  #isOpen = true;

  /** @throws database_corrupt, disk_full, data_locked */
  constructor(path: string) {
    this.path = path;
    this.#database = openDatabase(path);
    this.#begin = this.#database.prepare('BEGIN IMMEDIATE');
    this.#commit = this.#database.prepare('COMMIT');
    this.sandboxes = new SandboxTable(this.#database);
    this.execs = new ExecTable(this.#database);
    this.output = new OutputTable(this.#database);
  }

  /** All of `body`'s writes or none. Survives the death of the daemon. @throws disk_full, database_corrupt */
  transaction<T>(body: () => T): T {
    try {
      this.#begin.run();
      const result = body();
      this.#commit.run();
      return result;
    } catch (error) {
      // A failed COMMIT for want of space may have rolled back by itself already.
      if (this.#isOpen && this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw translate(error, this.path);
    }
  }

  /** Like `transaction`, and on the disk when it returns: for commits that a file's removal relies on. */
  durably<T>(body: () => T): T {
    this.#database.exec('PRAGMA synchronous = FULL');
    try {
      return this.transaction(body);
    } finally {
      this.#database.exec('PRAGMA synchronous = NORMAL');
    }
  }

  /** A read outside a transaction. @throws database_corrupt */
  read<T>(body: () => T): T {
    try {
      return body();
    } catch (error) {
      throw translate(error, this.path);
    }
  }

  [Symbol.dispose](): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#database.close();
  }
}
