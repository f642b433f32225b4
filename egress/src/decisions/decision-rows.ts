/**
 * The decisions' table: batches in, filtered pages out, the oldest removed. All of it is synchronous and only ever
 * called off the path of a connection.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { rfc3339 } from '@squash/base/clock';
import type { EgressDecision, EgressDecisionQuery } from '@squash/contract/egress-protocol';
import { egressLimits as limits } from '../limits.ts';
import type { Decision } from '../ports.ts';

/** A row on its way: `id` is there once it is stored, the figures once its connection has ended. */
export interface PendingRow {
  readonly sandbox: string;
  readonly timeMs: number;
  readonly decision: Decision;
  figures: Figures | undefined;
  count: number;
  id: number | undefined;
}

export interface Figures {
  readonly bytesUp: number;
  readonly bytesDown: number;
  readonly durationMs: number;
}

/** Rows above a bound before the oldest are removed: deleting in portions is cheaper than one at a time. */
const pruneSlack = 0.05;

export class DecisionRows {
  readonly #database: DatabaseSync;
  readonly #insert: StatementSync;
  readonly #finish: StatementSync;
  readonly #counts = new Map<string, number>();
  #total = 0;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#insert = database.prepare(
      `INSERT INTO decisions (time_ms, sandbox, kind, host, address, port, method, path, verdict, rule,
        bytes_up, bytes_down, duration_ms, secrets, count) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#finish = database.prepare(
      'UPDATE decisions SET bytes_up = ?, bytes_down = ?, duration_ms = ? WHERE id = ?',
    );
    for (const row of database
      .prepare('SELECT sandbox, count(*) AS n FROM decisions GROUP BY sandbox')
      .all()) {
      this.#counts.set(String(row['sandbox']), Number(row['n']));
      this.#total += Number(row['n']);
    }
  }

  get stored(): number {
    return this.#total;
  }

  /** New rows get their ids; `finished` are rows that were stored before. @throws SQLite's error, nothing is stored then */
  write(rows: readonly PendingRow[], finished: readonly PendingRow[]): void {
    this.#database.exec('BEGIN');
    try {
      for (const row of rows) row.id = Number(this.#insert.run(...values(row)).lastInsertRowid);
      for (const { figures, id } of finished) {
        if (figures === undefined || id === undefined) continue;
        this.#finish.run(figures.bytesUp, figures.bytesDown, figures.durationMs, id);
      }
      this.#database.exec('COMMIT');
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      for (const row of rows) row.id = undefined;
      throw error;
    }
    for (const { sandbox } of rows) this.#counts.set(sandbox, (this.#counts.get(sandbox) ?? 0) + 1);
    this.#total += rows.length;
    this.#prune(new Set(rows.map(({ sandbox }) => sandbox)));
  }

  /** In the order of ids. */
  read(query: EgressDecisionQuery): EgressDecision[] {
    const { where, parameters } = condition(query);
    const order = query.after === undefined ? 'DESC' : 'ASC';
    const rows = this.#database
      .prepare(`SELECT * FROM decisions ${where} ORDER BY id ${order} LIMIT ?`)
      .all(...parameters, query.limit)
      .map(publicRow);
    return query.after === undefined ? rows.reverse() : rows;
  }

  /** The id before which rows are missing; 0 where none are. */
  removedBefore(sandbox: string | undefined): number {
    const row =
      sandbox === undefined
        ? this.#database.prepare('SELECT max(before) AS before FROM pruned').get()
        : this.#database.prepare('SELECT before FROM pruned WHERE sandbox = ?').get(sandbox);
    return Number(row?.['before'] ?? 0);
  }

  forget(sandbox: string): void {
    this.#database.prepare('DELETE FROM decisions WHERE sandbox = ?').run(sandbox);
    this.#database.prepare('DELETE FROM pruned WHERE sandbox = ?').run(sandbox);
    this.#total -= this.#counts.get(sandbox) ?? 0;
    this.#counts.delete(sandbox);
  }

  sandboxes(): string[] {
    return [...this.#counts.keys()];
  }

  #prune(touched: ReadonlySet<string>): void {
    for (const sandbox of touched) {
      const most = limits.sandboxDecisionsMax;
      const over = (this.#counts.get(sandbox) ?? 0) - most;
      if (over > most * pruneSlack) this.#removeOldest(sandbox, over);
    }
    while (this.#total > limits.decisionsMax * (1 + pruneSlack)) {
      // Whoever has most gives: a quiet sandbox keeps its history beside a loud one.
      const [sandbox, rows] = [...this.#counts].reduce((most, one) => (one[1] > most[1] ? one : most));
      this.#removeOldest(sandbox, Math.ceil(rows / 2));
    }
  }

  #removeOldest(sandbox: string, rows: number): void {
    const border = this.#database
      .prepare('SELECT id FROM decisions WHERE sandbox = ? ORDER BY id LIMIT 1 OFFSET ?')
      .get(sandbox, rows);
    const before = Number(border?.['id'] ?? Number.MAX_SAFE_INTEGER);
    const { changes } = this.#database
      .prepare('DELETE FROM decisions WHERE sandbox = ? AND id < ?')
      .run(sandbox, before);
    this.#database.prepare('INSERT OR REPLACE INTO pruned VALUES (?, ?)').run(sandbox, before);
    this.#counts.set(sandbox, (this.#counts.get(sandbox) ?? 0) - Number(changes));
    this.#total -= Number(changes);
  }
}

function values({ sandbox, timeMs, decision, figures, count }: PendingRow): SQLInputValue[] {
  const { bytesUp, bytesDown, durationMs } = figures ?? decision;
  return [
    timeMs,
    sandbox,
    decision.kind,
    text(decision.host),
    text(decision.address),
    decision.port ?? null,
    text(decision.method),
    text(decision.path),
    decision.verdict,
    decision.rule.slice(0, limits.decisionTextMax),
    bytesUp ?? null,
    bytesDown ?? null,
    durationMs ?? null,
    decision.secrets === undefined || decision.secrets.length === 0 ? null : JSON.stringify(decision.secrets),
    count,
  ];
}

function text(value: string | undefined): string | null {
  return value?.slice(0, limits.decisionTextMax) ?? null;
}

function condition(query: EgressDecisionQuery): { where: string; parameters: SQLInputValue[] } {
  const parts: string[] = [];
  const parameters: SQLInputValue[] = [];
  const add = (part: string, value: SQLInputValue): void => {
    parts.push(part);
    parameters.push(value);
  };
  if (query.sandbox !== undefined) add('sandbox = ?', query.sandbox);
  if (query.after !== undefined) add('id > ?', query.after);
  if (query.kind !== undefined) add('kind = ?', query.kind);
  if (query.verdict === 'refused') add('verdict <> ?', 'allowed');
  else if (query.verdict !== undefined) add('verdict = ?', query.verdict);
  if (query.host?.startsWith('*.')) {
    const suffix = query.host.slice(1).toLowerCase();
    add(`substr(host, -${suffix.length}) = ?`, suffix);
  } else if (query.host !== undefined) add('host = ?', query.host.toLowerCase());
  return { where: parts.length === 0 ? '' : `WHERE ${parts.join(' AND ')}`, parameters };
}

/** The same filter for rows on their way to a follower. */
export function matches(row: EgressDecision, query: EgressDecisionQuery): boolean {
  const host = query.host?.toLowerCase();
  return (
    (query.sandbox === undefined || row.sandbox === query.sandbox) &&
    (query.kind === undefined || row.kind === query.kind) &&
    (query.verdict === undefined || isOf(row.verdict, query.verdict)) &&
    (host === undefined ||
      (host.startsWith('*.') ? row.host?.endsWith(host.slice(1)) === true : row.host === host))
  );
}

function isOf(
  verdict: EgressDecision['verdict'],
  asked: NonNullable<EgressDecisionQuery['verdict']>,
): boolean {
  return asked === 'refused' ? verdict !== 'allowed' : verdict === asked;
}

/** A stored row as it is shown. `id` must be there. */
export function shownRow(row: PendingRow): EgressDecision {
  const { decision, figures } = row;
  return {
    id: row.id ?? 0,
    time: rfc3339(row.timeMs),
    sandbox: row.sandbox,
    kind: decision.kind,
    host: text(decision.host),
    address: text(decision.address),
    port: decision.port ?? null,
    method: text(decision.method),
    path: text(decision.path),
    verdict: decision.verdict,
    rule: decision.rule.slice(0, limits.decisionTextMax),
    bytes_up: (figures ?? decision).bytesUp ?? null,
    bytes_down: (figures ?? decision).bytesDown ?? null,
    duration_ms: (figures ?? decision).durationMs ?? null,
    secrets: [...(decision.secrets ?? [])],
    count: row.count,
  };
}

function publicRow(row: Record<string, unknown>): EgressDecision {
  const { time_ms, secrets, ...rest } = row;
  return {
    ...(rest as Omit<EgressDecision, 'time' | 'secrets'>),
    time: rfc3339(Number(time_ms)),
    secrets: typeof secrets === 'string' ? (JSON.parse(secrets) as string[]) : [],
  };
}
