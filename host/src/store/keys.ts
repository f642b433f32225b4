/** Rows of API keys and quotas. Callers hold the transaction; every method is one statement. */
import type { HeldKey, Quota } from '@squash/contract/keys';
import { quotaSchema } from '@squash/contract/keys';
import { scopes } from '@squash/contract/scope';
import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';

const keyRowSchema = z.strictObject({
  id: z.string(),
  /** SHA-256 of the token in lower-case hex. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  name: z.string(),
  owner: z.string(),
  scope: z.enum(scopes),
  createdMs: z.int(),
  expiresMs: z.int().nullable(),
  lastUsedMs: z.int().nullable(),
});
export type KeyRow = Readonly<z.infer<typeof keyRowSchema>> & HeldKey;

export class KeyTable {
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  all(): readonly KeyRow[] {
    return this.#database
      .prepare(
        `SELECT id, hash, name, owner, scope, created_ms AS createdMs, expires_ms AS expiresMs, last_used_ms AS lastUsedMs
          FROM api_keys ORDER BY id`,
      )
      .all()
      .map((row) => keyRowSchema.parse({ ...row }));
  }

  insert(row: KeyRow): void {
    this.#database
      .prepare(
        `INSERT INTO api_keys (id, hash, name, owner, scope, created_ms, expires_ms, last_used_ms)
          VALUES (:id, :hash, :name, :owner, :scope, :createdMs, :expiresMs, :lastUsedMs)`,
      )
      .run({ ...row });
  }

  delete(id: string): void {
    this.#database.prepare('DELETE FROM api_keys WHERE id = ?').run(id);
  }

  noteUse(id: string, lastUsedMs: number): void {
    this.#database.prepare('UPDATE api_keys SET last_used_ms = ? WHERE id = ?').run(lastUsedMs, id);
  }

  quotas(): ReadonlyMap<string, Quota> {
    const rows = this.#database.prepare('SELECT * FROM quotas').all();
    return new Map(rows.map(({ owner, ...quota }) => [String(owner), quotaSchema.parse(quota)]));
  }

  setQuota(owner: string, quota: Quota): void {
    this.#database
      .prepare(
        `INSERT OR REPLACE INTO quotas (owner, sandboxes, memory_mb, cpu, disk_mb, execs)
          VALUES (:owner, :sandboxes, :memory_mb, :cpu, :disk_mb, :execs)`,
      )
      .run({ owner, ...quota });
  }

  deleteQuota(owner: string): void {
    this.#database.prepare('DELETE FROM quotas WHERE owner = ?').run(owner);
  }
}
