/**
 * The two databases of v2: `inbound.db`, which the original's host writes, and `outbound.db`, which the runner writes. Both lie in the chat's session,
 * so that numbers of messages and what a conversation is resumed by stay; the paths that the runner knows lead there.
 *
 * What is read of the runner's is bounded and nothing is believed of it: it is a text of the agent's like what it prints.
 */
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type Fields, textOf } from './channel-client.ts';
import { link, session } from './home.ts';
import { remove } from './places.ts';
import type { PromptMessage } from './prompt-messages.ts';
import { warn } from './warnings.ts';

export interface OutRow {
  readonly id: string;
  readonly kind: string;
  readonly to: string | null;
  /** Undefined: it is longer than any message. */
  readonly content: string | undefined;
}

/** What chats are to the runner: one kind of channel. */
export const channelType = 'squash';
const folder = join(session, '.nanoclaw');
const paths = { inbound: join(folder, 'inbound.db'), outbound: join(folder, 'outbound.db') };
/** Rows of either that are kept. */
const rowsKept = 1_000;
const contentCharsMax = 131_072;
/** A task that comes so soon is not the runner's to begin: Squash begins a run for it. */
const dueS = 60;
const never = '9999-12-31T00:00:00.000Z';

const inboundSchema = `
  CREATE TABLE IF NOT EXISTS messages_in (
    id TEXT PRIMARY KEY, seq INTEGER UNIQUE, kind TEXT NOT NULL, timestamp TEXT NOT NULL, status TEXT DEFAULT 'pending',
    process_after TEXT, recurrence TEXT, series_id TEXT, tries INTEGER DEFAULT 0, trigger INTEGER NOT NULL DEFAULT 1,
    platform_id TEXT, channel_type TEXT, thread_id TEXT, content TEXT NOT NULL, source_session_id TEXT,
    on_wake INTEGER NOT NULL DEFAULT 0
  );
  CREATE TABLE IF NOT EXISTS delivered (
    message_out_id TEXT PRIMARY KEY, platform_message_id TEXT, status TEXT NOT NULL DEFAULT 'delivered',
    delivered_at TEXT NOT NULL
  );
  CREATE TABLE IF NOT EXISTS destinations (
    name TEXT PRIMARY KEY, display_name TEXT, type TEXT NOT NULL, channel_type TEXT, platform_id TEXT, agent_group_id TEXT
  );
  CREATE TABLE IF NOT EXISTS session_routing (
    id INTEGER PRIMARY KEY CHECK (id = 1), channel_type TEXT, platform_id TEXT, thread_id TEXT
  );
`;
const outboundSchema = `
  CREATE TABLE IF NOT EXISTS messages_out (
    id TEXT PRIMARY KEY, seq INTEGER UNIQUE, in_reply_to TEXT, timestamp TEXT NOT NULL, deliver_after TEXT,
    recurrence TEXT, kind TEXT NOT NULL, platform_id TEXT, channel_type TEXT, thread_id TEXT, content TEXT NOT NULL
  );
  CREATE TABLE IF NOT EXISTS processing_ack (
    message_id TEXT PRIMARY KEY, status TEXT NOT NULL, status_changed TEXT NOT NULL
  );
  CREATE TABLE IF NOT EXISTS session_state (key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS container_state (
    id INTEGER PRIMARY KEY CHECK (id = 1), current_tool TEXT, tool_declared_timeout_ms INTEGER, tool_started_at TEXT,
    updated_at TEXT NOT NULL
  );
`;

export class Mailbox {
  readonly #inbound: DatabaseSync;
  readonly #chat: string;
  readonly #sent = new Set<string>();
  /** Of this run, not read to the end by the runner. */
  readonly #waiting = new Set<string>();

  private constructor(chat: string) {
    this.#chat = chat;
    mkdirSync(folder, { recursive: true });
    const outbound = new DatabaseSync(paths.outbound);
    outbound.exec(`PRAGMA journal_mode = DELETE; ${outboundSchema}`);
    outbound.exec(
      `DELETE FROM messages_out WHERE seq <= (SELECT max(seq) FROM messages_out) - ${2 * rowsKept}`,
    );
    outbound.exec('DELETE FROM processing_ack');
    outbound.close();
    this.#inbound = new DatabaseSync(paths.inbound);
    this.#inbound.exec(`PRAGMA journal_mode = DELETE; PRAGMA busy_timeout = 5000; ${inboundSchema}`);
    this.#inbound.exec(`DELETE FROM messages_in WHERE kind = 'task' OR seq <= (SELECT max(seq) FROM messages_in) - ${2 * rowsKept};
      UPDATE messages_in SET status = 'completed'; DELETE FROM destinations; DELETE FROM session_routing;
      DELETE FROM delivered WHERE rowid <= (SELECT max(rowid) FROM delivered) - ${4 * rowsKept}`);
    for (const { message_out_id: id } of this.#inbound.prepare('SELECT message_out_id FROM delivered').all())
      this.#sent.add(String(id));
    link(paths.inbound, '/workspace/inbound.db');
    link(paths.outbound, '/workspace/outbound.db');
    this.#inbound.prepare('INSERT INTO session_routing VALUES (1, ?, ?, NULL)').run(channelType, chat);
  }

  /** Databases that can't be read are begun anew: what an agent did to its own. */
  static open(chat: string): Mailbox {
    try {
      return new Mailbox(chat);
    } catch (error) {
      warn(`the session's databases are begun anew: ${(error as Error).message}`);
      remove(folder);
      return new Mailbox(chat);
    }
  }

  /** Whom it may write to, as far as it knows. */
  addDestination(chat: string): void {
    const words = 'INSERT OR REPLACE INTO destinations VALUES (?, ?, ?, ?, ?, NULL)';
    this.#inbound.prepare(words).run(chat, chat, 'channel', channelType, chat);
  }

  give({ sender, text, time }: PromptMessage): void {
    const isTask = sender.startsWith('schedule:');
    const content = isTask ? { prompt: text } : { sender, text };
    const id = `in-${Math.random().toString(36).slice(2, 12)}`;
    this.#insert({ id, kind: isTask ? 'task' : 'chat', time, content });
    this.#waiting.add(id);
  }

  /** By a name that nobody who writes in a chat can have. */
  tell(text: string): void {
    this.give({ sender: 'squash:host', text, time: new Date().toISOString() });
  }

  /** What the runner's tools list: never what it begins. Whoever reads meanwhile sees all or what was before. */
  listTasks(schedules: readonly Fields[]): void {
    this.#inbound.exec("BEGIN IMMEDIATE; DELETE FROM messages_in WHERE id LIKE 'task:%'");
    for (const { name, text, state, next_at: next, cron } of schedules) {
      if (state === 'done') continue;
      const status = state === 'paused' ? 'paused' : 'pending';
      const id = String(name);
      this.#insert({
        id: `task:${id}:${Math.random().toString(36).slice(2, 6)}`,
        kind: 'task',
        time: new Date().toISOString(),
        content: { prompt: text },
        task: [status, textOf(next) ?? never, textOf(cron) ?? null, id],
      });
    }
    this.#holdBack();
    this.#inbound.exec('COMMIT');
  }

  #holdBack(): void {
    const soon = `UPDATE messages_in SET status = 'due' WHERE id LIKE 'task:%' AND status = 'pending'
      AND datetime(process_after) <= datetime('now', '+${dueS} seconds')`;
    this.#inbound.exec(soon);
  }

  #insert(row: {
    readonly id: string;
    readonly kind: string;
    readonly time: string;
    readonly content: object;
    readonly task?: readonly (string | null)[];
  }): void {
    const [status = 'pending', after = null, recurrence = null, series = null] = row.task ?? [];
    const most = this.#inbound.prepare('SELECT coalesce(max(seq), 0) AS most FROM messages_in').get();
    // The host's are even, the runner's odd, and both count on from the other's.
    const above = Math.max(Number(most?.['most'] ?? 0), this.#mostSent());
    const seq = above + 2 - (above % 2);
    this.#inbound
      .prepare(
        `INSERT INTO messages_in (id, seq, kind, timestamp, status, process_after, recurrence, series_id, platform_id, channel_type, content)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(
        row.id,
        seq,
        row.kind,
        row.time,
        status,
        after,
        recurrence,
        series ?? row.id,
        this.#chat,
        channelType,
        JSON.stringify(row.content),
      );
  }

  #mostSent(): number {
    const [row] = this.#read('SELECT coalesce(max(seq), 0) AS most FROM messages_out');
    const most = Number(row?.['most'] ?? 0);
    return Number.isSafeInteger(most) ? most : 0;
  }

  /** Takes over what the runner has read to the end. */
  look(): void {
    this.#holdBack();
    const ended = this.#inbound.prepare("UPDATE messages_in SET status = 'completed' WHERE id = ?");
    for (const { message_id: id, status } of this.#read(
      'SELECT message_id, status FROM processing_ack LIMIT 4096',
    ))
      if (status !== 'processing' && this.#waiting.delete(String(id))) ended.run(String(id));
  }

  /** Whether all that it was given is read to the end, and no tool goes on. */
  get isDone(): boolean {
    const [state] = this.#read('SELECT current_tool FROM container_state LIMIT 1');
    return this.#waiting.size === 0 && (state?.['current_tool'] ?? null) === null;
  }

  /** What it wrote and nobody took, in its order. */
  taken(): readonly OutRow[] {
    const rows =
      this.#read(`SELECT id, kind, platform_id, CASE WHEN length(content) <= ${contentCharsMax} THEN content END AS content
      FROM messages_out WHERE deliver_after IS NULL OR datetime(deliver_after) <= datetime('now') ORDER BY seq DESC LIMIT ${rowsKept}`);
    return rows
      .map(({ id, kind, platform_id: to, content }) => ({
        id: String(id),
        kind: String(kind),
        to: typeof to === 'string' ? to : null,
        content: typeof content === 'string' ? content : undefined,
      }))
      .filter(({ id }) => !this.#sent.has(id))
      .toReversed();
  }

  /** @param isGone whether it came where it was to come */
  mark({ id }: OutRow, isGone: boolean): void {
    this.#sent.add(id);
    this.#inbound
      .prepare('INSERT OR REPLACE INTO delivered VALUES (?, NULL, ?, ?)')
      .run(id, isGone ? 'delivered' : 'failed', new Date().toISOString());
  }

  /** Of the runner's own, which may be anything by now; nothing where it can't be read. */
  #read(sql: string): readonly Record<string, unknown>[] {
    try {
      if (!statSync(paths.outbound).isFile()) return [];
      const outbound = new DatabaseSync(paths.outbound, { readOnly: true });
      try {
        outbound.exec('PRAGMA busy_timeout = 5000');
        return outbound.prepare(sql).all();
      } finally {
        outbound.close();
      }
    } catch {
      // Locked for long, or broken: it is looked at again.
      return [];
    }
  }
}
