/**
 * Every decision once: collected in memory, stored in batches, shown to those who follow.
 *
 * What a newcomer would get wrong: `record` must cost next to nothing, because a sandbox decides how often it is called.
 * Equal decisions of one batch are one row with a count, a batch has a bound, and what is above it is counted, not kept.
 * A connection's row is stored when it is decided and completed when it ends, so that one which lasts for hours is seen.
 */
import type { Log } from '@squash/base/log';
import type { EgressDecision, EgressDecisionQuery } from '@squash/contract/egress-protocol';
import { egressLimits as limits } from '../limits.ts';
import type { Decision } from '../ports.ts';
import { type DecisionRows, type Figures, matches, type PendingRow, shownRow } from './decision-rows.ts';

export interface DecisionLogOptions {
  readonly rows: DecisionRows;
  readonly nowMs: () => number;
  readonly log: Log;
}

/** A connection's row, to be completed once. */
export interface OpenDecision {
  end(figures: Figures): void;
}

interface Follower {
  readonly query: EgressDecisionQuery;
  readonly onRows: (rows: readonly EgressDecision[]) => void;
}

export class DecisionLog implements Disposable {
  readonly #options: DecisionLogOptions;
  readonly #followers = new Set<Follower>();
  #pending: PendingRow[] = [];
  #finished: PendingRow[] = [];
  #equal = new Map<string, PendingRow>();
  #timer: NodeJS.Timeout | undefined;
  #dropped = 0;
  #isClosed = false;

  constructor(options: DecisionLogOptions) {
    this.#options = options;
  }

  get stats(): { readonly stored: number; readonly dropped: number } {
    return { stored: this.#options.rows.stored, dropped: this.#dropped };
  }

  /** For what is over already. */
  record(sandbox: string, decision: Decision): void {
    const key = JSON.stringify([
      sandbox,
      decision.kind,
      decision.host ?? decision.address,
      decision.port,
      decision.verdict,
      decision.rule,
      decision.method,
      decision.path,
    ]);
    const hasFigures = decision.bytesUp !== undefined || decision.secrets !== undefined;
    const same = hasFigures ? undefined : this.#equal.get(key);
    if (same !== undefined) {
      same.count += 1;
      return;
    }
    const row = this.#add(sandbox, decision);
    if (row !== undefined && !hasFigures) this.#equal.set(key, row);
  }

  /** For a connection that goes on. */
  open(sandbox: string, decision: Decision): OpenDecision {
    const row = this.#add(sandbox, decision);
    return {
      end: (figures) => {
        if (row === undefined || row.figures !== undefined) return;
        row.figures = figures;
        // Where it is still waiting it is stored whole.
        if (row.id === undefined) return;
        if (this.#finished.length >= limits.decisionsPendingMax) this.#dropped += 1;
        else this.#finished.push(row);
        this.#arm();
      },
    };
  }

  read(query: EgressDecisionQuery): { decisions: EgressDecision[]; removed_before: number } {
    this.flush();
    return {
      decisions: this.#options.rows.read(query),
      removed_before: this.#options.rows.removedBefore(query.sandbox),
    };
  }

  /** The page that `query` asks for, then each new row, without a gap between. */
  follow(query: EgressDecisionQuery, onRows: (rows: readonly EgressDecision[]) => void): Disposable {
    onRows(this.read(query).decisions);
    const follower: Follower = { query, onRows };
    this.#followers.add(follower);
    return { [Symbol.dispose]: () => void this.#followers.delete(follower) };
  }

  forget(sandbox: string): void {
    this.flush();
    this.#options.rows.forget(sandbox);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const rows = this.#pending;
    const finished = this.#finished;
    if (rows.length === 0 && finished.length === 0) return;
    this.#pending = [];
    this.#finished = [];
    this.#equal = new Map();
    try {
      this.#options.rows.write(rows, finished);
    } catch (error) {
      // A full disk must not take the network away: what is lost is counted, and shown in the stats.
      this.#dropped += rows.length;
      this.#options.log.guest('').error('decisions.lost', { error, rows: rows.length });
      return;
    }
    if (this.#followers.size === 0) return;
    const shown = rows.map(shownRow);
    for (const { query, onRows } of this.#followers) {
      const wanted = shown.filter((row) => matches(row, query));
      if (wanted.length > 0) onRows(wanted);
    }
  }

  [Symbol.dispose](): void {
    this.flush();
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#followers.clear();
  }

  #add(sandbox: string, decision: Decision): PendingRow | undefined {
    if (this.#isClosed) return undefined;
    if (this.#pending.length >= limits.decisionsPendingMax) {
      this.#dropped += 1;
      return undefined;
    }
    const row: PendingRow = {
      sandbox,
      timeMs: this.#options.nowMs(),
      decision,
      figures: undefined,
      count: 1,
      id: undefined,
    };
    this.#pending.push(row);
    this.#arm();
    return row;
  }

  #arm(): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => this.flush(), limits.decisionsFlushMs);
  }
}
