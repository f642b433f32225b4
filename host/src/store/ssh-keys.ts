/** Rows of the keys of SSH. Callers hold the transaction; every method is one statement. */
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
}
