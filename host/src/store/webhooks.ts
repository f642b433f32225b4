/** Rows of webhooks: where events are sent, how far that is, and how it goes. Callers hold the transaction. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { eventTypes } from '@squash/contract/event-types';
import { webhookIdSchema, type WebhookId } from '@squash/contract/webhooks';
import { z } from 'zod';

export const webhookRowSchema = z.strictObject({
  id: webhookIdSchema,
  url: z.string(),
  /** None: all. A type that a later version knows is left out. */
  types: z.array(z.enum(eventTypes)),
  owner: z.string().nullable(),
  /** It signs, so it has to be known here. The file is mode 0600, in a directory of mode 0700. */
  secret: z.string(),
  isEnabled: z.boolean(),
  createdMs: z.int(),
  /** Id of the last event that was taken or given up. */
  position: z.int(),
  lastSuccessMs: z.int().nullable(),
  lastFailureMs: z.int().nullable(),
  lastError: z.string().nullable(),
  givenUp: z.int(),
  missedBefore: z.int().nullable(),
});
export type WebhookRow = Readonly<z.infer<typeof webhookRowSchema>>;

export type WebhookChange = Partial<Omit<WebhookRow, 'id' | 'secret' | 'createdMs' | 'owner'>>;

export class WebhookTable {
  readonly #database: DatabaseSync;
  readonly #put;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#put = database.prepare(`
      INSERT OR REPLACE INTO webhooks (id, url, types, owner, secret, enabled, created_ms, position, last_success_ms,
        last_failure_ms, last_error, given_up, missed_before)
      VALUES (:id, :url, :types, :owner, :secret, :enabled, :createdMs, :position, :lastSuccessMs,
        :lastFailureMs, :lastError, :givenUp, :missedBefore)`);
  }

  /** Oldest first. */
  all(): readonly WebhookRow[] {
    return this.#database.prepare('SELECT * FROM webhooks ORDER BY created_ms, id').all().map(webhookOf);
  }

  put({ isEnabled, types, ...row }: WebhookRow): void {
    this.#put.run({ ...row, types: JSON.stringify(types), enabled: isEnabled ? 1 : 0 });
  }

  delete(id: WebhookId): void {
    this.#database.prepare('DELETE FROM webhooks WHERE id = ?').run(id);
  }
}

function webhookOf(row: Record<string, SQLOutputValue>): WebhookRow {
  const stored = JSON.parse(String(row['types'])) as readonly string[];
  return webhookRowSchema.parse({
    id: row['id'],
    url: row['url'],
    types: eventTypes.filter((type) => stored.includes(type)),
    owner: row['owner'],
    secret: row['secret'],
    isEnabled: row['enabled'] === 1,
    createdMs: row['created_ms'],
    position: row['position'],
    lastSuccessMs: row['last_success_ms'],
    lastFailureMs: row['last_failure_ms'],
    lastError: row['last_error'],
    givenUp: row['given_up'],
    missedBefore: row['missed_before'],
  });
}
