/**
 * The part of a connection's life in which a person is asked. Nothing of it is looked at meanwhile but whether the program still waits.
 *
 * What a newcomer would get wrong: a relay tells of a connection's end only to who waits for its bytes, so the end of what a program
 * has said so far is taken for its death. A question outlives neither: who has left makes room for the next.
 */
import { type Destination, questionKey, type Verdict } from '@squash/policy/policy';
import { Consent } from '../approvals/consent.ts';
import { isAsking, type Questions } from '../approvals/questions.ts';
import { egressLimits as limits } from '../limits.ts';
import { type Plan, planOpen, type Rules } from './plan.ts';
import type { Sandbox } from './sandbox.ts';

type AskPlan = Extract<Plan, { kind: 'ask' }>;

export interface AskedHost {
  readonly sandbox: Sandbox;
  readonly destination: Destination;
  readonly rules: () => Rules;
  /** Its end is to be heard, and bytes behind these. */
  readonly hold: (offset: number) => void;
  readonly carryOut: (plan: Plan) => void;
  readonly refuse: (verdict: Verdict) => void;
  readonly cut: () => void;
}

export class Asked {
  /** What has been allowed for this connection. */
  readonly consent: Consent;
  readonly #questions: Questions;
  readonly #host: AskedHost;
  #plan: AskPlan | undefined;
  #leave: (() => void) | undefined;

  constructor(questions: Questions, host: AskedHost) {
    this.#questions = questions;
    this.#host = host;
    this.consent = new Consent(() => host.sandbox.policy);
  }

  begin(plan: AskPlan): void {
    const { sandbox, destination, rules, hold, refuse, carryOut } = this.#host;
    const { question, verdict } = plan;
    const asker = { sandbox: sandbox.id, question, rule: verdict.rule };
    const asking = this.#questions.ask(asker, (refusal) => {
      this.#leave = undefined;
      if (refusal !== undefined) return refuse(refusal);
      this.consent.give(question);
      carryOut(planOpen(destination, rules()));
    });
    if (!isAsking(asking)) return refuse(asking);
    this.#plan = plan;
    this.#leave = () => asking.leave();
    hold(0);
  }

  hear(bytes: number, hasEnded: boolean): void {
    if (hasEnded) this.#host.cut();
    else if (bytes < limits.firstBytesMax) this.#host.hold(bytes);
  }

  /** The rules have changed: they may answer what is asked. */
  review(): void {
    const { destination, rules, carryOut } = this.#host;
    const plan = planOpen(destination, rules());
    const asked = this.#plan;
    const isSame =
      asked !== undefined &&
      plan.kind === 'ask' &&
      questionKey(plan.question) === questionKey(asked.question);
    if (isSame) return;
    this.leave();
    carryOut(plan);
  }

  leave(): void {
    this.#leave?.();
    this.#leave = undefined;
  }
}
