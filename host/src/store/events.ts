/**
 * The events' table. `insert` is called inside the transaction that changes what the event tells of, so that both are
 * stored or neither; everything else is called by who reads, and outside of anybody's way.
 *
 * What a newcomer would get wrong: where there are too many, whoever has most gives. An owner who creates and destroys in a
 * loop must not push out what others have not read yet.
 */
import type { DatabaseSync, SQLInputValue, SQLOutputValue } from 'node:sqlite';
import type { EventType } from '@squash/contract/event-types';
import type { EventData, EventFilter } from '@squash/contract/events';
import { limits } from '@squash/contract/limits';

export interface NewEvent {
  readonly atMs: number;
  readonly type: EventType;
  readonly sandbox: string;
  readonly owner: string;
  readonly data: EventData;
}

export interface EventRow extends NewEvent {
  readonly id: number;
}

export interface EventPage extends EventFilter {
  /** Null: the newest. */
  readonly after: number | null;
  readonly limit: number;
}

/** Rows above the bound before the oldest go: deleting in portions is cheaper than one at a time. */
const slack = 0.05;
/** Of `event_gaps`: what was removed of every owner whose own row went. */
const everybody = '*';

export class EventTable {
  readonly #database: DatabaseSync;
  readonly #insert;
  readonly #newest;
  #rows: number;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#insert = database.prepare(
      'INSERT INTO events (at_ms, type, sandbox, owner, data) VALUES (?, ?, ?, ?, ?)',
    );
    this.#newest = database.prepare(`SELECT seq FROM sqlite_sequence WHERE name = 'events'`);
    this.#rows = this.#count();
  }

  insert({ atMs, type, sandbox, owner, data }: NewEvent): void {
    this.#insert.run(atMs, type, sandbox, owner, dataText(data));
    this.#rows += 1;
  }

  /** The id that was given out last; 0 where none was. */
  newest(): number {
    return Number(this.#newest.get()?.['seq'] ?? 0);
  }

  /**
   * A power cut may have taken the last events, which somebody has read already. Their ids are not used again: who resumes
   * behind one would miss what has it now.
   */
  skipLost(): void {
    this.#database
      .prepare(`UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'events'`)
      .run(limits.eventsMax);
  }

  /** In the order of ids. */
  page(page: EventPage): readonly EventRow[] {
    const { where, values } = condition(page);
    const order = page.after === null ? 'DESC' : 'ASC';
    const rows = this.#database
      .prepare(`SELECT * FROM events ${where} ORDER BY id ${order} LIMIT ?`)
      .all(...values, page.limit)
      .map(eventOf);
    return page.after === null ? rows.reverse() : rows;
  }

  /** How many are behind this id. */
  count(filter: EventFilter, after: number): number {
    const { where, values } = condition({ ...filter, after });
    return Number(this.#database.prepare(`SELECT count(*) AS n FROM events ${where}`).get(...values)?.['n']);
  }

  /** Events of this owner (null: of anybody) with smaller ids were removed; 0: none were. */
  removedBefore(owner: string | null): number {
    const row =
      owner === null
        ? this.#database.prepare('SELECT max(before) AS before FROM event_gaps').get()
        : this.#database
            .prepare('SELECT max(before) AS before FROM event_gaps WHERE owner IN (?, ?)')
            .get(owner, everybody);
    return Number(row?.['before'] ?? 0);
  }

  get isOverfull(): boolean {
    return this.#rows > limits.eventsMax * (1 + slack);
  }

  /** Removes the oldest of those who have most, until all fit. Call inside a transaction of its own. */
  prune(): void {
    const counts = this.#database
      .prepare('SELECT owner, count(*) AS rows FROM events GROUP BY owner')
      .all()
      .map((row) => ({ owner: String(row['owner']), rows: Number(row['rows']) }));
    const most = shareOf(
      counts.map(({ rows }) => rows),
      limits.eventsMax,
    );
    for (const { owner, rows } of counts) if (rows > most) this.#removeOldest(owner, rows - most);
    this.#mergeGaps();
    this.#rows = this.#count();
  }

  #removeOldest(owner: string, rows: number): void {
    const last = this.#database
      .prepare('SELECT id FROM events WHERE owner = ? ORDER BY id LIMIT 1 OFFSET ?')
      .get(owner, rows - 1);
    const before = Number(last?.['id'] ?? 0) + 1;
    this.#database.prepare('DELETE FROM events WHERE owner = ? AND id < ?').run(owner, before);
    this.#database
      .prepare('INSERT OR REPLACE INTO event_gaps (owner, before) VALUES (?, ?)')
      .run(owner, before);
  }

  /** Owners are as many as anybody makes up: the oldest gaps become one, which may tell an owner of too much. */
  #mergeGaps(): void {
    const border = this.#database
      .prepare('SELECT before FROM event_gaps WHERE owner <> ? ORDER BY before DESC LIMIT 1 OFFSET ?')
      .get(everybody, limits.eventGapsMax);
    if (border === undefined) return;
    const before = Number(border['before']);
    this.#database.prepare('DELETE FROM event_gaps WHERE before <= ?').run(before);
    this.#database
      .prepare('INSERT OR REPLACE INTO event_gaps (owner, before) VALUES (?, ?)')
      .run(everybody, before);
  }

  #count(): number {
    return Number(this.#database.prepare('SELECT count(*) AS rows FROM events').get()?.['rows']);
  }
}

/** The most that each may keep so that all together have no more than `total`: the small ones keep what they have. */
export function shareOf(counts: readonly number[], total: number): number {
  let left = total;
  const ascending = counts.toSorted((one, other) => one - other);
  for (const [index, count] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - index));
    if (count > share) return share;
    left -= count;
  }
  return total;
}

/** Long texts are cut: a full error message is in the log and in `info`. What is too long for all that (escapes, six characters each) says only so. */
function dataText(data: EventData): string {
  const cut = Object.entries(data).map(([key, value]) => [
    key,
    typeof value === 'string' ? value.slice(0, limits.eventTextCharsMax) : value,
  ]);
  const text = JSON.stringify(Object.fromEntries(cut));
  return text.length <= limits.eventDataCharsMax ? text : '{"truncated":true}';
}

function condition({ after, owner, sandbox, types }: Omit<EventPage, 'limit'>): {
  readonly where: string;
  readonly values: readonly SQLInputValue[];
} {
  const parts: string[] = [];
  const values: SQLInputValue[] = [];
  const add = (part: string, ...more: readonly SQLInputValue[]): void => {
    parts.push(part);
    values.push(...more);
  };
  if (after !== null) add('id > ?', after);
  if (owner !== null) add('owner = ?', owner);
  if (sandbox !== null) add('sandbox = ?', sandbox);
  if (types !== null) add(`type IN (${types.map(() => '?').join(', ')})`, ...types);
  return { where: parts.length === 0 ? '' : `WHERE ${parts.join(' AND ')}`, values };
}

function eventOf(row: Record<string, SQLOutputValue>): EventRow {
  return {
    id: Number(row['id']),
    atMs: Number(row['at_ms']),
    type: String(row['type']) as EventType,
    sandbox: String(row['sandbox']),
    owner: String(row['owner']),
    data: JSON.parse(String(row['data'])) as EventData,
  };
}
