/**
 * The daemon's state: one SQLite file, used synchronously by the one process that holds the data directory.
 *
 * Synchronous on purpose: a small WAL transaction costs some tens of microseconds, less than a thread hop, and
 * nothing can come between the statements of a transaction. Never `await` inside `transaction`.
 */
import type { DatabaseSync } from 'node:sqlite';
import { AppError } from '@squash/contract/errors';
import { openDatabase, translate } from './database.ts';
import { EventTable } from './events.ts';
import { ApprovalTable } from './approvals.ts';
import { ExecTable } from './execs.ts';
import { GroupTable } from './groups.ts';
import { KeyTable } from './keys.ts';
import { ScheduleTable } from './schedules.ts';
import { SshKeyTable } from './ssh-keys.ts';
import { IdempotencyTable } from './idempotency.ts';
import { LogSync } from './log-sync.ts';
import { OutputTable } from './output.ts';
import { ProcessOutputTable } from './process-output.ts';
import { PortTable } from './ports.ts';
import { SandboxTable } from './sandboxes.ts';
import { WebhookTable } from './webhooks.ts';
import { VolumeTable } from './volumes.ts';

export class Store implements Disposable {
  readonly path: string;
  readonly sandboxes: SandboxTable;
  readonly execs: ExecTable;
  readonly output: OutputTable;
  readonly keys: KeyTable;
  readonly sshKeys: SshKeyTable;
  readonly processOutput: ProcessOutputTable;
  readonly idempotency: IdempotencyTable;
  readonly events: EventTable;
  readonly webhooks: WebhookTable;
  readonly ports: PortTable;
  readonly volumes: VolumeTable;
  readonly approvals: ApprovalTable;
  readonly groups: GroupTable;
  readonly schedules: ScheduleTable;
  readonly #database: DatabaseSync;
  readonly #begin;
  readonly #commit;
  readonly #giveUpReserve: () => boolean;
  readonly #logSync: LogSync;
  #isOpen = true;

  /**
   * @param giveUpReserve makes room on a full disk; false where it can't
   * @throws as `openDatabase`
   */
  constructor(path: string, giveUpReserve: () => boolean = () => false) {
    this.path = path;
    this.#giveUpReserve = giveUpReserve;
    this.#database = openDatabase(path);
    this.#logSync = new LogSync(path);
    // The last daemon may have died between a commit and its sync.
    this.#logSync.soon();
    this.#begin = this.#database.prepare('BEGIN IMMEDIATE');
    this.#commit = this.#database.prepare('COMMIT');
    this.sandboxes = new SandboxTable(this.#database);
    this.execs = new ExecTable(this.#database);
    this.output = new OutputTable(this.#database);
    this.keys = new KeyTable(this.#database);
    this.sshKeys = new SshKeyTable(this.#database);
    this.processOutput = new ProcessOutputTable(this.#database);
    this.idempotency = new IdempotencyTable(this.#database);
    this.events = new EventTable(this.#database);
    this.webhooks = new WebhookTable(this.#database);
    this.ports = new PortTable(this.#database);
    this.volumes = new VolumeTable(this.#database);
    this.approvals = new ApprovalTable(this.#database);
    this.groups = new GroupTable(this.#database, (body) => this.transaction(body));
    this.schedules = new ScheduleTable(this.#database);
  }

  /** All of `body`'s writes or none. Survives the death of the daemon, and soon a power cut. @throws disk_full, database_corrupt */
  transaction<T>(body: () => T): T {
    try {
      this.#begin.run();
      const result = body();
      this.#commit.run();
      this.#logSync.soon();
      return result;
    } catch (error) {
      // A failed COMMIT for want of space may have rolled back by itself already.
      if (this.#isOpen && this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw translate(error, this.path);
    }
  }

  /**
   * Like `transaction`, and on the disk when it returns: for commits that a file's removal relies on. As such a step
   * makes room, or is the last one of many, it may use what `pressing` may.
   */
  durably<T>(body: () => T): T {
    return this.#onFullDisk(() => {
      this.#database.exec('PRAGMA synchronous = FULL');
      try {
        return this.transaction(body);
      } finally {
        this.#database.exec('PRAGMA synchronous = NORMAL');
      }
    });
  }

  /** Resolves when every commit before the call is on the disk. Unlike `durably` it keeps nobody else waiting. @throws what the disk says */
  synced(): Promise<void> {
    return this.#logSync.now();
  }

  /**
   * Like `transaction`, and on a full disk with the room that is kept in reserve: for what makes room itself, and for what
   * a start can't go without. Clients' commands must not use that up, so nothing else. May run `body` again.
   */
  pressing<T>(body: () => T): T {
    return this.#onFullDisk(() => this.transaction(body));
  }

  #onFullDisk<T>(commit: () => T): T {
    const remedies = [() => this.#restartLog(), this.#giveUpReserve];
    for (;;) {
      try {
        return commit();
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'disk_full') throw error;
        let hasHelped = false;
        while (!hasHelped && remedies.length > 0) hasHelped = remedies.shift()?.() ?? false;
        if (!hasHelped) throw error;
      }
    }
  }

  /** What the log holds goes to its place; then the log begins anew in the room that it has. */
  #restartLog(): boolean {
    try {
      const done = this.#database.prepare('PRAGMA wal_checkpoint(RESTART)').get();
      return done?.['busy'] === 0;
    } catch {
      // The database itself can't grow either.
      return false;
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
    this.#logSync[Symbol.dispose]();
    this.#database.close();
  }
}
