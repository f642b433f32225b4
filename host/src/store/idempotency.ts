/**
 * What a caller's `Idempotency-Key` stands for: the request it came with, by its digest, and what that request made.
 *
 * The row is written in the transaction that makes the thing, so there is no moment at which one is there without the other. A key
 * belongs to its caller's owner. It goes with its sandbox, after `idempotencyMs`, or when the sandbox has more than it may.
 */
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { Once } from '@squash/contract/once';
import type { DatabaseSync } from 'node:sqlite';

interface Made {
  readonly sandbox: SandboxId;
  /** Of the command; null where the sandbox itself was made. */
  readonly seq: number | null;
}

export class IdempotencyTable {
  readonly #find;
  readonly #insert;
  readonly #forget;
  readonly #expire;
  readonly #bound;

  constructor(database: DatabaseSync) {
    this.#find = database.prepare(
      'SELECT operation, digest, sandbox, seq FROM idempotency WHERE caller = ? AND key = ? AND created_ms > ?',
    );
    this.#insert = database.prepare(
      `INSERT OR REPLACE INTO idempotency (caller, key, operation, digest, sandbox, seq, created_ms)
        VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#forget = database.prepare('DELETE FROM idempotency WHERE caller = ? AND key = ?');
    this.#expire = database.prepare('DELETE FROM idempotency WHERE created_ms <= ?');
    this.#bound = database.prepare(
      `DELETE FROM idempotency WHERE sandbox = ?1 AND rowid <= (
        SELECT rowid FROM idempotency WHERE sandbox = ?1 ORDER BY rowid DESC LIMIT 1 OFFSET ?2)`,
    );
  }

  /** What the same request has made before. @throws idempotency_mismatch where the key came with another one */
  find(once: Once, nowMs: number): Made | undefined {
    const row = this.#find.get(once.caller, once.key, nowMs - limits.idempotencyMs);
    if (row === undefined) return undefined;
    if (row['operation'] !== once.operation || row['digest'] !== once.digest) {
      throw new AppError(
        'idempotency_mismatch',
        `The Idempotency-Key was sent before with another request (${String(row['operation'])})`,
      );
    }
    const seq = row['seq'];
    return {
      sandbox: String(row['sandbox']) as SandboxId,
      seq: seq === null || seq === undefined ? null : Number(seq),
    };
  }

  /** Call in the transaction that makes it. */
  add(once: Once, made: Made, nowMs: number): void {
    this.#expire.run(nowMs - limits.idempotencyMs);
    const { caller, key, operation, digest } = once;
    this.#insert.run(caller, key, operation, digest, made.sandbox, made.seq, nowMs);
    this.#bound.run(made.sandbox, limits.idempotencyKeysMax);
  }

  /** The request was refused after all: its repetition is a new one. */
  forget({ caller, key }: Once): void {
    this.#forget.run(caller, key);
  }
}
