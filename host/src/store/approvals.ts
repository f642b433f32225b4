/** Rows of questions to people and of what they approved for all. Callers hold the transaction. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { type approvalStates, approvalScopes } from '@squash/contract/approvals';
import { egressAskedSchema, type EgressAsked } from '@squash/contract/egress-protocol';
import { limits } from '@squash/contract/limits';
import { approvedSchema, type PolicyRuleSource } from '@squash/contract/policy';
import { z } from 'zod';

export type ApprovalState = (typeof approvalStates)[number];

export interface ApprovalEnd {
  readonly state: ApprovalState;
  readonly scope: (typeof approvalScopes)[number] | null;
  readonly reason: string | null;
  readonly decidedBy: string | null;
  readonly decidedMs: number | null;
}

export interface ApprovalRow extends ApprovalEnd {
  /** Grows. */
  readonly key: number;
  readonly asked: EgressAsked;
}

export interface ApprovalFilter {
  readonly state?: ApprovalState | undefined;
  readonly sandbox?: string | undefined;
  /** Of the sandbox; null: anybody. */
  readonly owner: string | null;
}

export interface StandingRow {
  readonly key: number;
  readonly rule: PolicyRuleSource;
  readonly decidedBy: string;
  readonly decidedMs: number;
}

export class ApprovalTable {
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /** The oldest that are over make room, the sandbox's own first. False: it is known. */
  insert(asked: EgressAsked): boolean {
    const done = this.#database
      .prepare(`INSERT OR IGNORE INTO approvals (id, sandbox, asked, state) VALUES (?, ?, ?, 'pending')`)
      .run(asked.id, asked.sandbox, JSON.stringify(asked));
    this.#database
      .prepare(
        `DELETE FROM approvals WHERE sandbox = :sandbox AND state <> 'pending' AND key <=
          (SELECT key FROM approvals WHERE sandbox = :sandbox ORDER BY key DESC LIMIT 1 OFFSET :kept)`,
      )
      .run({ sandbox: asked.sandbox, kept: limits.approvalsKeptMax });
    this.#database
      .prepare(
        `DELETE FROM approvals WHERE state <> 'pending' AND key <=
          (SELECT key FROM approvals ORDER BY key DESC LIMIT 1 OFFSET :kept)`,
      )
      .run({ kept: limits.approvalsMax });
    return done.changes === 1;
  }

  end(id: string, { state, scope, reason, decidedBy, decidedMs }: ApprovalEnd): void {
    this.#database
      .prepare(
        'UPDATE approvals SET state = ?, scope = ?, reason = ?, decided_by = ?, decided_ms = ? WHERE id = ?',
      )
      .run(state, scope, reason, decidedBy, decidedMs, id);
  }

  find(id: string): ApprovalRow | undefined {
    const row = this.#database.prepare('SELECT * FROM approvals WHERE id = ?').get(id);
    return row === undefined ? undefined : approvalOf(row);
  }

  /** Newest first, from before this key. */
  *before(key: number, { state, sandbox, owner }: ApprovalFilter): Generator<ApprovalRow, void, void> {
    const rows = this.#database
      .prepare(
        `SELECT approvals.* FROM approvals JOIN sandboxes ON sandboxes.id = approvals.sandbox
         WHERE key < :key AND (:state IS NULL OR state = :state) AND (:sandbox IS NULL OR sandbox = :sandbox)
           AND (:owner IS NULL OR owner = :owner) ORDER BY key DESC`,
      )
      .iterate({ key, state: state ?? null, sandbox: sandbox ?? null, owner });
    for (const row of rows) yield approvalOf(row);
  }

  pending(): readonly ApprovalRow[] {
    return [...this.before(Number.MAX_SAFE_INTEGER, { state: 'pending', owner: null })];
  }

  standing(): readonly StandingRow[] {
    return this.#database
      .prepare('SELECT * FROM standing_approvals ORDER BY key')
      .all()
      .flatMap((row) => {
        const rule = ruleOf(String(row['rule']));
        // One that says nothing any more allows nothing: whoever it stood for is asked again.
        if (rule === undefined) return [];
        const [key, decidedMs] = [Number(row['key']), Number(row['decided_ms'])];
        return [{ key, rule, decidedBy: String(row['decided_by']), decidedMs }];
      });
  }

  addStanding({ rule, decidedBy, decidedMs }: Omit<StandingRow, 'key'>): void {
    this.#database
      .prepare('INSERT OR IGNORE INTO standing_approvals (rule, decided_by, decided_ms) VALUES (?, ?, ?)')
      .run(JSON.stringify(rule), decidedBy, decidedMs);
  }

  /** False: there is none. */
  removeStanding(key: number): boolean {
    return this.#database.prepare('DELETE FROM standing_approvals WHERE key = ?').run(key).changes === 1;
  }
}

const scopeSchema = z.enum(approvalScopes).nullable();

function approvalOf(row: Record<string, SQLOutputValue>): ApprovalRow {
  const text = (name: string): string | null => (row[name] === null ? null : String(row[name]));
  return {
    key: Number(row['key']),
    asked: egressAskedSchema.parse(JSON.parse(String(row['asked']))),
    state: String(row['state']) as ApprovalState,
    scope: scopeSchema.parse(row['scope']),
    reason: text('reason'),
    decidedBy: text('decided_by'),
    decidedMs: row['decided_ms'] === null ? null : Number(row['decided_ms']),
  };
}

function ruleOf(text: string): PolicyRuleSource | undefined {
  try {
    return approvedSchema.parse([JSON.parse(text)])[0];
  } catch {
    // No JSON, or none that a release of ours wrote.
    return undefined;
  }
}
