/** Rows of the keys of SSH, and of the sessions that have logged in with them. Callers hold the transaction. */
import { sshScopes } from '@squash/contract/ssh-keys';
import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';

const rowSchema = z.strictObject({
  id: z.string(),
  /** As SSH sends it, in base64. */
  blob: z.string(),
  name: z.string(),
  owner: z.string(),
  scope: z.enum(sshScopes),
  createdMs: z.int(),
  expiresMs: z.int().nullable(),
});
export type SshKeyRow = Readonly<z.infer<typeof rowSchema>>;

export class SshKeyTable {
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  all(): readonly SshKeyRow[] {
    return this.#database
      .prepare(
        `SELECT id, blob, name, owner, scope, created_ms AS createdMs, expires_ms AS expiresMs
          FROM ssh_keys ORDER BY id`,
      )
      .all()
      .map((row) => rowSchema.parse({ ...row }));
  }

  insert(row: SshKeyRow): void {
    this.#database
      .prepare(
        `INSERT INTO ssh_keys (id, blob, name, owner, scope, created_ms, expires_ms)
          VALUES (:id, :blob, :name, :owner, :scope, :createdMs, :expiresMs)`,
      )
      .run({ ...row });
  }

  delete(id: string): void {
    this.#database.prepare('DELETE FROM ssh_keys WHERE id = ?').run(id);
  }

  /**
   * False where the session was taken before. Of each key the newest are remembered, so nobody's logins make room for another's.
   * @param key and session are digests
   */
  takeSession(key: Uint8Array, session: Uint8Array, keptMax: number): boolean {
    const { changes } = this.#database
      .prepare(
        `INSERT OR IGNORE INTO ssh_sessions (key, number, session)
          VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM ssh_sessions WHERE key = ?1), ?2)`,
      )
      .run(key, session);
    if (changes === 0) return false;
    this.#database
      .prepare(
        `DELETE FROM ssh_sessions
          WHERE key = ?1 AND number <= (SELECT max(number) FROM ssh_sessions WHERE key = ?1) - ?2`,
      )
      .run(key, keptMax);
    return true;
  }
}
