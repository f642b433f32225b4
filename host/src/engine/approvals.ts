/**
 * What waits for a person: kept, shown, decided. The egress process holds the connections and has the last word on whether
 * anybody waits still; here are the rows, and the rules that an answer for longer makes.
 *
 * What a newcomer would get wrong: the answer goes to the egress process before anything is written. Whatever dies in between, nothing is
 * allowed for longer than a person said, and what he had no time to say is a refusal or the same question again.
 */
import { AppError } from '@squash/contract/errors';
import type { ApprovalDecision, ApprovalInfo, StandingApproval } from '@squash/contract/approvals';
import { nothing } from '@squash/contract/destination';
import type { EgressAsked, EgressQuestionEnd } from '@squash/contract/egress-protocol';
import { type SandboxId, sandboxIdSchema } from '@squash/contract/ids';
import { issueSentence } from '@squash/contract/issue-sentence';
import { limits } from '@squash/contract/limits';
import {
  approvedSchema,
  type PolicyRuleSource,
  type PolicySource,
  policySchema,
} from '@squash/contract/policy';
import { errorText } from '@squash/base/bug';
import { rfc3339 } from '@squash/base/clock';
import type { ApprovalEnd, ApprovalRow, ApprovalState } from '#store/approvals.ts';
import type { QuestionListener } from '../sandbox/questions.ts';
import type { World } from '../sandbox/world.ts';
import type { Page } from './page.ts';
import type { Residents } from './residents.ts';

export interface ApprovalQuery {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
  readonly state?: ApprovalState | undefined;
  readonly sandbox?: SandboxId | undefined;
  /** Whose; null: everybody's. */
  readonly owner: string | null;
}

/** Whether what this owner has is there for whoever asks. */
type Sees = (owner: string) => boolean;

export interface Deciding extends ApprovalDecision {
  /** Id of a key, or `operator`. */
  readonly by: string;
  readonly sees: Sees;
}

export interface Approvals {
  page(query: ApprovalQuery): Page<ApprovalInfo>;
  /** @throws approval_not_found */
  get(id: string, sees: Sees): ApprovalInfo;
  /** @throws approval_not_found, approval_expired, approval_decided, egress_unavailable, disk_full, invalid_request */
  decide(id: string, deciding: Deciding): Promise<ApprovalInfo>;
  /** For every policy that asks. */
  approved(): readonly PolicyRuleSource[];
  standing(): readonly StandingApproval[];
  /** @throws approval_not_found, disk_full */
  removeStanding(id: number): Promise<void>;
}

export class LocalApprovals implements Approvals, QuestionListener {
  readonly #world: World;
  readonly #residents: Residents;
  /** Two decisions of one question wait for each other. */
  readonly #deciding = new Map<string, Promise<unknown>>();

  constructor(world: World, residents: Residents) {
    this.#world = world;
    this.#residents = residents;
  }

  /** When every sandbox of an earlier daemon is known. */
  begin(): void {
    this.#world.network.questions.begin(this);
  }

  approved(): readonly PolicyRuleSource[] {
    const { store } = this.#world;
    return store.read(() => store.approvals.standing()).map(({ rule }) => rule);
  }

  page(query: ApprovalQuery): Page<ApprovalInfo> {
    const { limit = limits.pageItemsDefault, cursor } = query;
    const { store } = this.#world;
    const items: ApprovalInfo[] = [];
    const key = cursor === undefined ? Number.MAX_SAFE_INTEGER : placeOf(cursor);
    return store.read(() => {
      let last = key;
      for (const row of store.approvals.before(key, query)) {
        if (items.length === limit) return { items, next: cursorOf(last) };
        items.push(infoOf(row));
        last = row.key;
      }
      return { items, next: null };
    });
  }

  get(id: string, sees: Sees): ApprovalInfo {
    return infoOf(this.#find(id, sees));
  }

  async decide(id: string, deciding: Deciding): Promise<ApprovalInfo> {
    for (;;) {
      const other = this.#deciding.get(id);
      if (other === undefined) break;
      await other.catch(() => undefined);
    }
    const done = this.#decide(this.#find(id, deciding.sees), deciding);
    this.#deciding.set(id, done);
    try {
      await done;
    } finally {
      this.#deciding.delete(id);
    }
    return this.get(id, deciding.sees);
  }

  standing(): readonly StandingApproval[] {
    const { store } = this.#world;
    return store
      .read(() => store.approvals.standing())
      .map(({ key, rule, decidedBy, decidedMs }) => ({
        id: key,
        rule: plain(rule),
        decided_at: rfc3339(decidedMs),
        decided_by: decidedBy,
      }));
  }

  async removeStanding(id: number): Promise<void> {
    const { store, network } = this.#world;
    if (!store.transaction(() => store.approvals.removeStanding(id))) {
      throw new AppError('approval_not_found', `Nothing is approved for all under the number ${id}`);
    }
    await Promise.all([store.synced(), network.applyApproved()]);
  }

  onOpen(open: readonly EgressAsked[]): void {
    const ids = new Set(open.map(({ id }) => id));
    const { store } = this.#world;
    for (const { asked } of store.read(() => store.approvals.pending())) {
      if (!ids.has(asked.id) && !this.#deciding.has(asked.id)) this.#end(asked, unanswered('withdrawn'));
    }
    for (const asked of open) this.onAsked(asked);
  }

  onAsked(asked: EgressAsked): void {
    const { store, log } = this.#world;
    const sandbox = this.#sandboxOf(asked);
    // Removed meanwhile: whoever waited is being ended.
    if (sandbox === undefined) return;
    const { id, host, address, port, expires_ms: expiresMs } = asked;
    const place = { host: host ?? address, port, expires_at: rfc3339(expiresMs) };
    try {
      store.transaction(() => {
        if (!store.approvals.insert(asked)) return;
        this.#world.events.tell(sandbox.row, {
          type: 'approval.requested',
          data: { approval: id, ...place },
        });
      });
    } catch (error) {
      // It is not seen by anybody, so it times out: a refusal.
      log.guest(asked.sandbox).error('approval.lost', { error: errorText(error) });
    }
  }

  onEnded({ id, end }: EgressQuestionEnd): void {
    if (end === 'answered') return;
    const { store } = this.#world;
    const row = store.read(() => store.approvals.find(id));
    if (row?.state === 'pending') this.#end(row.asked, unanswered(end));
  }

  async #decide(row: ApprovalRow, deciding: Deciding): Promise<void> {
    const { asked, state } = row;
    const { decision, scope } = deciding;
    const wanted = decision === 'allow' ? 'allowed' : 'denied';
    if (state === 'timed_out' || state === 'withdrawn') throw expired(asked.id, state);
    if (state !== 'pending') {
      if (state === wanted && row.scope === scope) return;
      const was = `${state} ("${row.scope ?? 'once'}")`;
      throw new AppError('approval_decided', `Cannot decide "${asked.id}" again: it is ${was}`);
    }
    const keep = this.#keeping(asked, deciding);
    if (!(await this.#world.network.questions.answer(asked.id, decision === 'allow'))) {
      this.#end(asked, unanswered('withdrawn'));
      throw expired(asked.id, 'withdrawn');
    }
    const { reason = null, by } = deciding;
    const decidedMs = this.#world.clock.wallMs();
    const end = { state: wanted, scope, reason, decidedBy: by, decidedMs } as const;
    try {
      await keep?.();
    } catch (error) {
      // Who waited has been let through, and nobody else will be.
      this.#end(asked, { ...end, scope: 'once' });
      throw error;
    }
    this.#end(asked, end);
  }

  /** What makes it hold for longer than once; looked at before anybody is let through. @throws invalid_request */
  #keeping(asked: EgressAsked, { scope, decision, by }: Deciding): (() => Promise<void>) | undefined {
    if (scope === 'once') return undefined;
    if (decision === 'deny') {
      throw new AppError(
        'invalid_request',
        'scope: a denial is for once; `deny` of the policy holds for longer',
      );
    }
    const rule = grantOf(asked);
    if (scope === 'sandbox') {
      const sandbox = this.#sandboxOf(asked);
      if (sandbox === undefined) throw expired(asked.id, 'withdrawn');
      widened(sandbox.rules.policy, rule);
      return () => sandbox.setPolicy(widened(sandbox.rules.policy, rule));
    }
    if (!approvedSchema.safeParse([rule]).success) {
      throw new AppError(
        'invalid_request',
        'scope: the name can not stand in a rule: allow it once, or deny it',
      );
    }
    const { store, network, clock } = this.#world;
    if (this.approved().length >= limits.standingApprovalsMax) {
      throw new AppError(
        'invalid_request',
        `scope: ${limits.standingApprovalsMax} rules hold for all already: remove some, or write them into policies`,
      );
    }
    return async () => {
      store.transaction(() =>
        store.approvals.addStanding({ rule, decidedBy: by, decidedMs: clock.wallMs() }),
      );
      await Promise.all([store.synced(), network.applyApproved()]);
    };
  }

  #end(asked: EgressAsked, end: ApprovalEnd): void {
    const { store, log, events } = this.#world;
    const sandbox = this.#sandboxOf(asked);
    const { state, scope } = end;
    try {
      store.transaction(() => {
        store.approvals.end(asked.id, end);
        if (sandbox === undefined) return;
        events.tell(sandbox.row, { type: 'approval.decided', data: { approval: asked.id, state, scope } });
      });
    } catch (error) {
      if (end.decidedBy !== null) throw error;
      log.guest(asked.sandbox).error('approval.lost', { error: errorText(error) });
    }
  }

  #find(id: string, sees: Sees): ApprovalRow {
    const { store } = this.#world;
    const row = store.read(() => store.approvals.find(id));
    if (row !== undefined && this.#isSeen(row, sees)) return row;
    throw new AppError('approval_not_found', `Cannot find approval "${id}"`);
  }

  #isSeen({ asked }: ApprovalRow, sees: Sees): boolean {
    const sandbox = this.#sandboxOf(asked);
    return sandbox !== undefined && sees(sandbox.row.owner);
  }

  #sandboxOf({ sandbox }: EgressAsked) {
    const id = sandboxIdSchema.safeParse(sandbox);
    return id.success ? this.#residents.peek(id.data) : undefined;
  }
}

/** The rule that answers the question, and no other: one host, one port, and one method and path where the question has them. */
export function grantOf({ host, address, port, grant }: EgressAsked): PolicyRuleSource {
  const place = host ?? (address?.includes(':') === true ? `[${address}]` : (address ?? ''));
  const to = `${place}:${port}`;
  if (grant.method === null && grant.path === null) return to;
  return {
    to: [to],
    ...(grant.method !== null && { methods: [grant.method] }),
    ...(grant.path !== null && { paths: [grant.path] }),
    ...(grant.upgrades.length > 0 && { upgrades: grant.upgrades }),
  };
}

function widened(policy: PolicySource, rule: PolicyRuleSource): PolicySource {
  const kept = policy.allow.filter(
    (each) => each !== nothing && JSON.stringify(each) !== JSON.stringify(rule),
  );
  const checked = policySchema.safeParse({ ...policy, allow: [...kept, rule] }, { error: issueSentence });
  if (checked.success) return checked.data;
  throw new AppError(
    'invalid_request',
    `scope: the sandbox's policy can't have the rule: ${checked.error.issues[0]?.message ?? 'it is malformed'}`,
  );
}

function unanswered(state: 'timed_out' | 'withdrawn'): ApprovalEnd {
  return { state, scope: null, reason: null, decidedBy: null, decidedMs: null };
}

function expired(id: string, state: 'timed_out' | 'withdrawn'): AppError {
  const why = state === 'timed_out' ? 'it timed out, and was refused' : 'nobody waits for it any more';
  return new AppError('approval_expired', `Cannot decide "${id}": ${why}`);
}

function infoOf(row: ApprovalRow): ApprovalInfo {
  const { asked, state, scope, reason, decidedBy, decidedMs } = row;
  const { id, sandbox, host, address, port, method, path, rule } = asked;
  return {
    id,
    sandbox,
    state,
    host,
    address,
    port,
    method,
    path,
    rule,
    grant: plain(grantOf(asked)),
    asked_at: rfc3339(asked.asked_ms),
    expires_at: rfc3339(asked.expires_ms),
    scope,
    reason,
    decided_at: decidedMs === null ? null : rfc3339(decidedMs),
    decided_by: decidedBy,
  };
}

/** A copy: the schema's types are those of JSON. */
function plain(rule: PolicyRuleSource): ApprovalInfo['grant'] {
  return structuredClone(rule) as ApprovalInfo['grant'];
}

function cursorOf(key: number): string {
  return Buffer.from(`${key}`).toString('base64url');
}

function placeOf(cursor: string): number {
  const text = Buffer.from(cursor, 'base64url').toString();
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new AppError('invalid_request', 'cursor: take `next` of the page before as it is');
}
