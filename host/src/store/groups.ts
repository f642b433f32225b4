/** Rows of groups: tiers, groups, chats, messages in and out, runs, actions. Callers hold the transaction. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { type ActionRequest, actionRequestSchema, actionStates } from '@squash/contract/actions';
import { groupLimits } from '@squash/contract/group-limits';
import { type ChatCreate, chatCreateSchema, groupCreateSchema, runStates } from '@squash/contract/groups';
import { tierBodySchema } from '@squash/contract/tiers';
import type {
  ActionFilter,
  ActionRow,
  ChatRow,
  GroupRow,
  GroupRows,
  MessageRow,
  OutRow,
  RunRow,
  TierRow,
} from '@squash/groups/rows';
import { z } from 'zod';

type Row = Record<string, SQLOutputValue>;
const text = z.string().nullable();
const integer = z.int().nullable();
const flag = z.int().transform((value) => value === 1);

const messageSchema = z.strictObject({
  number: z.int(),
  chat: z.string(),
  sender: z.string(),
  text: z.string(),
  id: text,
  isStarting: flag,
  depth: z.int(),
  run: integer,
  atMs: z.int(),
});
const outSchema = z.strictObject({
  number: z.int(),
  chat: z.string(),
  text: z.string(),
  by: z.string(),
  run: z.int(),
  action: text,
  atMs: z.int(),
});
const runRowSchema = z.strictObject({
  run: z.int(),
  group: z.string(),
  chat: z.string(),
  state: z.enum(runStates),
  attempt: z.int(),
  notBeforeMs: z.int(),
  reason: text,
  exitCode: integer,
  sandbox: text,
  isWarm: flag,
  warmUntilMs: integer,
  hasBegun: flag,
  hasActed: flag,
  position: z.int(),
  outputBytes: z.int(),
  isTruncated: flag,
  isIsolated: flag,
  depth: z.int(),
  createdMs: z.int(),
  startedMs: integer,
  finishedMs: integer,
});
const actionRowSchema = z.strictObject({
  number: z.int(),
  group: z.string(),
  run: z.int(),
  request: z.string(),
  state: z.enum(actionStates),
  rule: z.string(),
  reason: text,
  askedMs: z.int(),
  decidedMs: integer,
});

const messageColumns = `key AS number, chat, sender, text, id, starting AS isStarting, depth, run, at_ms AS atMs`;
const outColumns = `key AS number, chat, text, by_group AS by, run, action, at_ms AS atMs`;
const runColumns = `key AS run, grp AS "group", chat, state, attempt, not_before_ms AS notBeforeMs, reason, exit_code AS exitCode,
  sandbox, warm AS isWarm, warm_until_ms AS warmUntilMs, begun AS hasBegun, acted AS hasActed, position, output_bytes AS outputBytes, truncated AS isTruncated, depth, isolated AS isIsolated,
  created_ms AS createdMs, started_ms AS startedMs, finished_ms AS finishedMs`;
const actionColumns = `key AS number, grp AS "group", run, request, state, rule, reason, asked_ms AS askedMs, decided_ms AS decidedMs`;

export class GroupTable implements GroupRows {
  readonly transaction: GroupRows['transaction'];
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync, transaction: GroupRows['transaction']) {
    this.#database = database;
    this.transaction = transaction;
  }

  tiers(): readonly TierRow[] {
    return this.#all('SELECT name, body FROM group_tiers ORDER BY name').map(({ name, body }) => ({
      name: String(name),
      body: tierBodySchema.parse(JSON.parse(String(body))),
    }));
  }

  putTier({ name, body }: TierRow): void {
    this.#run('INSERT OR REPLACE INTO group_tiers (name, body) VALUES (?, ?)', name, JSON.stringify(body));
  }

  deleteTier(name: string): void {
    this.#run('DELETE FROM group_tiers WHERE name = ?', name);
  }

  groups(): readonly GroupRow[] {
    return this.#all('SELECT * FROM groups ORDER BY name').map(groupOf);
  }

  groupNames(group?: string): ReturnType<GroupRows['groupNames']> {
    return this.#all(
      `SELECT name, body ->> 'tier' AS tier FROM groups WHERE ?1 IS NULL OR name = ?1 ORDER BY name`,
      group ?? null,
    ).map(({ name, tier }) => ({ name: String(name), tier: String(tier) }));
  }

  group(name: string): GroupRow | undefined {
    return this.#all('SELECT * FROM groups WHERE name = ?', name).map(groupOf)[0];
  }

  insertGroup({ body, createdMs, createdBy }: Omit<GroupRow, 'key' | 'volume'>): void {
    this.#run(
      'INSERT INTO groups (name, body, created_ms, created_by) VALUES (?, ?, ?, ?)',
      body.name,
      JSON.stringify(body),
      createdMs,
      createdBy,
    );
  }

  putGroup(body: GroupRow['body']): void {
    this.#run('UPDATE groups SET body = ? WHERE name = ?', JSON.stringify(body), body.name);
  }

  setVolume(group: string, volume: string): void {
    this.#run('UPDATE groups SET volume = ? WHERE name = ?', volume, group);
  }

  deleteGroup(name: string): void {
    this.#run('DELETE FROM groups WHERE name = ?', name);
  }

  chats(): readonly ChatRow[] {
    return this.#all('SELECT * FROM chats ORDER BY name').map(chatOf);
  }

  chatNames(group?: string): ReturnType<GroupRows['chatNames']> {
    return this.#all(
      'SELECT name, grp FROM chats WHERE ?1 IS NULL OR grp = ?1 ORDER BY name',
      group ?? null,
    ).map(({ name, grp }) => ({ name: String(name), group: String(grp) }));
  }

  chat(name: string): ChatRow | undefined {
    return this.#all('SELECT * FROM chats WHERE name = ?', name).map(chatOf)[0];
  }

  insertChat({ body, createdMs }: Omit<ChatRow, 'session'>): void {
    const { name, group } = body;
    this.#run(
      'INSERT INTO chats (name, grp, body, created_ms) VALUES (?, ?, ?, ?)',
      name,
      group,
      JSON.stringify(body),
      createdMs,
    );
  }

  putChat(body: ChatRow['body']): void {
    this.#run('UPDATE chats SET body = ? WHERE name = ?', JSON.stringify(body), body.name);
  }

  setSession(chat: string, session: string | null): void {
    this.#run('UPDATE chats SET session = ? WHERE name = ?', session, chat);
  }

  deleteChat(name: string): void {
    this.#run('DELETE FROM chats WHERE name = ?', name);
  }

  messageBy(chat: string, id: string): MessageRow | undefined {
    return this.#messages('WHERE chat = ? AND id = ?', chat, id)[0];
  }

  insertMessage({ isStarting, ...row }: Omit<MessageRow, 'number' | 'run'>): number {
    return this.#insert(
      `INSERT INTO chat_messages (chat, sender, text, id, starting, depth, at_ms)
        VALUES (:chat, :sender, :text, :id, :isStarting, :depth, :atMs)`,
      { ...row, isStarting: Number(isStarting) },
    );
  }

  waiting(chat: string): readonly MessageRow[] {
    return this.#messages('WHERE chat = ? AND run IS NULL ORDER BY key', chat);
  }

  deleteMessage(number: number): void {
    this.#run('DELETE FROM chat_messages WHERE key = ?', number);
  }

  giveTo(run: number, messages: readonly number[]): void {
    for (const number of messages) this.#run('UPDATE chat_messages SET run = ? WHERE key = ?', run, number);
  }

  messagesOf(run: number): readonly MessageRow[] {
    return this.#messages('WHERE run = ? ORDER BY key', run);
  }

  insertOut(row: Omit<OutRow, 'number'>): void {
    this.#insert(
      'INSERT INTO chat_out (chat, text, by_group, run, action, at_ms) VALUES (:chat, :text, :by, :run, :action, :atMs)',
      { ...row },
    );
    this.#run(
      'DELETE FROM chat_out WHERE chat = ?1 AND key <= (SELECT key FROM chat_out WHERE chat = ?1 ORDER BY key DESC LIMIT 1 OFFSET ?2)',
      row.chat,
      groupLimits.outMessagesMax,
    );
  }

  out(chat: string, after: number, limit: number): readonly OutRow[] {
    return this.#all(
      `SELECT ${outColumns} FROM chat_out WHERE chat = ? AND key > ? ORDER BY key LIMIT ?`,
      chat,
      after,
      limit,
    ).map((row) => outSchema.parse(row));
  }

  lastOut(chat: string): number {
    const [row] = this.#all('SELECT max(key) AS last FROM chat_out WHERE chat = ?', chat);
    return Number(row?.['last'] ?? 0);
  }

  insertRun({ isIsolated, ...row }: Omit<RunRow, 'run'>): number {
    const run = this.#insert(
      `INSERT INTO group_runs (grp, chat, state, attempt, not_before_ms, reason, exit_code, sandbox, warm, warm_until_ms, begun, acted, position,
        output_bytes, truncated, depth, isolated, created_ms, started_ms, finished_ms)
        VALUES (:group, :chat, :state, :attempt, :notBeforeMs, :reason, :exitCode, :sandbox, :isWarm, :warmUntilMs, :hasBegun, :hasActed, :position,
        :outputBytes, :isTruncated, :depth, :isIsolated, :createdMs, :startedMs, :finishedMs)`,
      flags({ ...row, isIsolated: Number(isIsolated) }),
    );
    this.#run(
      `DELETE FROM group_runs WHERE grp = ?1 AND state IN ('done', 'failed') AND sandbox IS NULL AND key <=
        (SELECT key FROM group_runs WHERE grp = ?1 ORDER BY key DESC LIMIT 1 OFFSET ?2)`,
      row.group,
      groupLimits.keptMax,
    );
    return run;
  }

  run(run: number): RunRow | undefined {
    return this.#runs('WHERE key = ?', run)[0];
  }

  putRun({
    group: _group,
    chat: _chat,
    isIsolated: _isIsolated,
    createdMs: _createdMs,
    ...row
  }: RunRow): void {
    this.#database
      .prepare(
        `UPDATE group_runs SET state = :state, attempt = :attempt, not_before_ms = :notBeforeMs, reason = :reason,
          exit_code = :exitCode, sandbox = :sandbox, warm = :isWarm, warm_until_ms = :warmUntilMs, begun = :hasBegun, acted = :hasActed, position = :position,
          output_bytes = :outputBytes, truncated = :isTruncated, depth = :depth, started_ms = :startedMs,
          finished_ms = :finishedMs WHERE key = :run`,
      )
      .run(flags(row));
  }

  runsOf(group: string, limit: number): readonly RunRow[] {
    return this.#runs('WHERE grp = ? ORDER BY key DESC LIMIT ?', group, limit);
  }

  openRuns(): readonly RunRow[] {
    return this.#runs(`WHERE state IN ('queued', 'running') OR sandbox IS NOT NULL ORDER BY key`);
  }

  action(number: number): ActionRow | undefined {
    return this.#actions('WHERE key = ?', number)[0];
  }

  actionBy(group: string, id: string): ActionRow | undefined {
    return this.#actions('WHERE grp = ? AND id = ?', group, id)[0];
  }

  insertAction({ request, ...row }: Omit<ActionRow, 'number'>): number {
    const number = this.#insert(
      `INSERT INTO group_actions (grp, id, run, request, state, rule, reason, asked_ms, decided_ms)
        VALUES (:group, :id, :run, :request, :state, :rule, :reason, :askedMs, :decidedMs)`,
      { ...row, id: request.id, request: JSON.stringify(request) },
    );
    // Of one whose run may still ask again nothing is forgotten: a run has far fewer than are kept.
    this.#run(
      `DELETE FROM group_actions WHERE grp = ?1 AND state <> 'held' AND key <=
        (SELECT key FROM group_actions WHERE grp = ?1 ORDER BY key DESC LIMIT 1 OFFSET ?2)`,
      row.group,
      groupLimits.keptMax,
    );
    return number;
  }

  putAction({ number, state, rule, reason, decidedMs }: ActionRow): void {
    this.#run(
      'UPDATE group_actions SET state = ?, rule = ?, reason = ?, decided_ms = ? WHERE key = ?',
      state,
      rule,
      reason,
      decidedMs,
      number,
    );
  }

  actions({ state, group }: ActionFilter, limit: number): readonly ActionRow[] {
    return this.#actions(
      'WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR grp = ?2) ORDER BY key DESC LIMIT ?3',
      state ?? null,
      group ?? null,
      limit,
    );
  }

  countHeld(group: string): number {
    return this.#count(`grp = ? AND state = 'held'`, group);
  }

  countOfRun(run: number): number {
    return this.#count('run = ?', run);
  }

  #count(where: string, value: string | number): number {
    return Number(
      this.#all(`SELECT count(*) AS count FROM group_actions WHERE ${where}`, value)[0]?.['count'] ?? 0,
    );
  }

  #messages(where: string, ...values: readonly (string | number)[]): readonly MessageRow[] {
    return this.#all(`SELECT ${messageColumns} FROM chat_messages ${where}`, ...values).map((row) =>
      messageSchema.parse(row),
    );
  }

  #runs(where: string, ...values: readonly (string | number)[]): readonly RunRow[] {
    return this.#all(`SELECT ${runColumns} FROM group_runs ${where}`, ...values).map((row) =>
      runRowSchema.parse(row),
    );
  }

  #actions(where: string, ...values: readonly (string | number | null)[]): readonly ActionRow[] {
    return this.#all(`SELECT ${actionColumns} FROM group_actions ${where}`, ...values).map((row) => {
      const { request, ...rest } = actionRowSchema.parse(row);
      return { ...rest, request: actionRequestSchema.parse(JSON.parse(request)) satisfies ActionRequest };
    });
  }

  #all(sql: string, ...values: readonly (string | number | null)[]): readonly Row[] {
    return this.#database
      .prepare(sql)
      .all(...values)
      .map((row) => ({ ...row }));
  }

  #run(sql: string, ...values: readonly (string | number | null)[]): void {
    this.#database.prepare(sql).run(...values);
  }

  #insert(sql: string, values: Readonly<Record<string, string | number | null>>): number {
    return Number(this.#database.prepare(sql).run(values).lastInsertRowid);
  }
}

function groupOf(row: Row): GroupRow {
  return {
    key: Number(row['key']),
    body: groupCreateSchema.parse(JSON.parse(String(row['body']))),
    volume: text.parse(row['volume']),
    createdMs: Number(row['created_ms']),
    createdBy: text.parse(row['created_by']),
  };
}

function chatOf(row: Row): ChatRow {
  const body: ChatCreate = chatCreateSchema.parse(JSON.parse(String(row['body'])));
  return { body, session: text.parse(row['session']), createdMs: Number(row['created_ms']) };
}

/** SQLite has no booleans. */
function flags<T extends Pick<RunRow, 'isWarm' | 'hasBegun' | 'hasActed' | 'isTruncated'>>(row: T) {
  const { isWarm, hasBegun, hasActed, isTruncated } = row;
  return {
    ...row,
    isWarm: Number(isWarm),
    hasBegun: Number(hasBegun),
    hasActed: Number(hasActed),
    isTruncated: Number(isTruncated),
  };
}
