/**
 * What agents ask for: judged, done or held or refused, and written down, in one transaction: an action that is done is known as
 * done, so one that is asked for again after any death of the daemon is not done again.
 */
import { rfc3339 } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { Action, ActionDecision, ActionRequest } from '@squash/contract/actions';
import type { AuditCaller } from '@squash/contract/audit';
import { AppError } from '@squash/contract/errors';
import { groupLimits } from '@squash/contract/group-limits';
import { type Actor, askedBy, bounded, type Means, perform } from './act-table.ts';
import { judge, type Verdict } from './judge.ts';
import { firstTime } from './next-time.ts';
import type { Decision, Witness } from './ports.ts';
import type { ActionRow } from './rows.ts';

export interface ActsOptions extends Omit<Means, 'nowMs' | 'isAllowed'> {
  readonly nowMs: () => number;
  readonly log: Log;
  readonly witness: Witness;
}

export interface Deciding extends Pick<ActionDecision, 'decision'> {
  readonly reason?: string | null | undefined;
  readonly by: AuditCaller;
}

/** What the agent is answered. */
export type Asking =
  | { readonly kind: 'known'; readonly action: Action; readonly isNew: boolean }
  | { readonly kind: 'refused'; readonly rule: string };

type Outcome = Pick<ActionRow, 'state' | 'reason'>;

export class Acts {
  readonly #options: ActsOptions;

  constructor(options: ActsOptions) {
    this.#options = options;
  }

  /** @throws invalid_request, schedule_never, disk_full */
  ask(actor: Actor, request: ActionRequest): Asking {
    const { rows, log, nowMs } = this.#options;
    const asking = rows.transaction((): Asking => {
      const known = rows.actionBy(actor.group, request.id);
      if (known !== undefined) {
        // Keys come in the order of the schema.
        if (JSON.stringify(known.request) === JSON.stringify(request))
          return { kind: 'known', action: actionOf(known), isNew: false };
        return this.#refused(actor, request, 'id: another action of the group has it');
      }
      if (rows.countOfRun(actor.run) >= groupLimits.actionsOfRunMax)
        return this.#refused(
          actor,
          request,
          `actions: a run asks for ${groupLimits.actionsOfRunMax} at most`,
        );
      const asked = { group: actor.group, run: actor.run, request, askedMs: nowMs() };
      // What can never be is refused before a person is asked.
      if (request.action === 'schedule.create')
        firstTime({ ...request, fromMs: asked.askedMs }, asked.askedMs);
      const verdict = this.#bounded(actor.group, this.#judged(actor, asked));
      const outcome = this.#outcome(actor, request, { ...verdict, isAllowed: false });
      const number = rows.insertAction({
        ...asked,
        ...outcome,
        rule: verdict.rule,
        decidedMs: decidedMs(outcome, nowMs()),
      });
      this.#mark(actor.run, outcome);
      const row = rows.action(number);
      if (row === undefined) throw new AppError('internal', `action ${number} is not stored`);
      this.#witness(row, null);
      return { kind: 'known', action: actionOf(row), isNew: true };
    });
    const { group, run } = actor;
    // All of the request is in its row: whatever an agent chose is no part of a line.
    const decided =
      asking.kind === 'known'
        ? { number: asking.action.number, state: asking.action.state, rule: asking.action.rule }
        : { state: 'refused', rule: asking.rule };
    log.guest(`group:${group}`).info('group.action', { group, run, action: request.action, ...decided });
    return asking;
  }

  /** Of the group's own, by the agent's id. */
  find(group: string, id: string): Action | undefined {
    const row = this.#options.rows.actionBy(group, id);
    return row === undefined ? undefined : actionOf(row);
  }

  /** A person's word. What the tier refuses by now stays refused. @throws action_not_found, action_decided, disk_full */
  decide(number: number, { decision, reason = null, by }: Deciding): Action {
    const { rows, log, nowMs } = this.#options;
    const decided = rows.transaction(() => {
      const row = rows.action(number);
      if (row === undefined) throw new AppError('action_not_found', `Cannot find action ${number}`);
      if (row.state !== 'held') throw new AppError('action_decided', `Action ${number} is ${row.state}`);
      const actor = {
        group: row.group,
        run: row.run,
        depth: rows.run(row.run)?.depth ?? groupLimits.depthMax,
      };
      const next = this.#decided(actor, row, { decision, reason });
      rows.putAction({ ...next, decidedMs: nowMs() });
      this.#witness(next, by);
      return actionOf({ ...next, decidedMs: nowMs() });
    });
    log.info('group.decide', {
      action: number,
      group: decided.group,
      decision,
      state: decided.state,
      rule: decided.rule,
    });
    return decided;
  }

  /** Of a group that is being removed. Within that transaction. */
  withdraw(group: string, by: AuditCaller): void {
    for (const row of this.#options.rows.actions({ state: 'held', group }, groupLimits.heldMax))
      this.#witness({ ...row, state: 'withdrawn' }, by);
  }

  #refused({ group, run }: Actor, { action }: ActionRequest, rule: string): Asking {
    const { rows, witness } = this.#options;
    const sandbox = rows.run(run)?.sandbox ?? null;
    witness.decided({ action: null, asked: action, group, run, sandbox, state: 'refused', rule, by: null });
    return { kind: 'refused', rule };
  }

  #witness(
    { number, request, group, run, state, rule }: Omit<ActionRow, 'state'> & Pick<Decision, 'state'>,
    by: Decision['by'],
  ): void {
    const { rows, witness } = this.#options;
    const sandbox = rows.run(run)?.sandbox ?? null;
    witness.decided({ action: number, asked: request.action, group, run, sandbox, state, rule, by });
  }

  #decided(
    actor: Actor,
    row: ActionRow,
    { decision, reason }: { readonly decision: string; readonly reason: string | null },
  ): ActionRow {
    if (decision === 'deny') return { ...row, state: 'denied', reason };
    const verdict = this.#judged(actor, row);
    if (verdict.effect === 'deny') return { ...row, state: 'denied', rule: verdict.rule, reason };
    const outcome = this.#outcome(actor, row.request, { effect: 'allow', isAllowed: true });
    return { ...row, ...outcome, reason: outcome.reason ?? reason };
  }

  #judged(actor: Actor, { request, askedMs }: Pick<ActionRow, 'request' | 'askedMs'>): Verdict {
    const { registry } = this.#options;
    const bound = bounded(actor, request);
    if (bound !== undefined) return { effect: 'deny', rule: bound };
    const asked = askedBy(actor, request, { ...this.#options, askedMs });
    return judge(registry.tierOf(actor.group), asked);
  }

  /** Of what is new alone: who has asked too much can be allowed what waits. */
  #bounded(group: string, verdict: Verdict): Verdict {
    if (verdict.effect !== 'hold' || this.#options.rows.countHeld(group) < groupLimits.heldMax)
      return verdict;
    return { effect: 'deny', rule: `held: ${groupLimits.heldMax} actions of the group wait already` };
  }

  #outcome(
    actor: Actor,
    request: ActionRequest,
    { effect, isAllowed }: Pick<Verdict, 'effect'> & Pick<Means, 'isAllowed'>,
  ): Outcome {
    if (effect === 'deny') return { state: 'denied', reason: null };
    if (effect === 'hold') return { state: 'held', reason: null };
    try {
      perform(actor, request, { ...this.#options, nowMs: this.#options.nowMs(), isAllowed });
      return { state: 'done', reason: null };
    } catch (error) {
      // Nothing was written: each action's last step is its only write, or the first that can fail.
      if (!(error instanceof AppError) || error.code === 'internal' || error.code === 'disk_full')
        throw error;
      return { state: 'failed', reason: error.message };
    }
  }

  /** A run that did something, or may yet, is not tried again. */
  #mark(run: number, { state }: Outcome): void {
    const { rows } = this.#options;
    const row = rows.run(run);
    if (row !== undefined && (state === 'done' || state === 'held')) rows.putRun({ ...row, hasActed: true });
  }
}

function decidedMs({ state }: Outcome, nowMs: number): number | null {
  return state === 'held' ? null : nowMs;
}

export function actionOf({
  number,
  group,
  run,
  request,
  state,
  rule,
  reason,
  askedMs,
  decidedMs: at,
}: ActionRow): Action {
  const { id, action } = request;
  return {
    number,
    id,
    action,
    group,
    run,
    request: { ...request },
    state,
    rule,
    reason,
    asked_at: rfc3339(askedMs),
    decided_at: at === null ? null : rfc3339(at),
  };
}
