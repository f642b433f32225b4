/**
 * One request under way, until the last byte of its answer: how it is given up, and whether it may go on when the rules
 * have changed.
 *
 * What a newcomer would get wrong: a request keeps the secrets that it began with. While something can still be put into it,
 * because it is not wholly sent or has left HTTP, other secrets are its end; who only waits for an answer may have it.
 */
import type { InterceptedConnection } from '../ports.ts';
import type { TrafficSecrets } from '../secrets/traffic-secrets.ts';
import { Consent } from '../approvals/consent.ts';
import { denied, judge, type Judgement } from './judgement.ts';
import type { FrontExchange } from './message.ts';
import { BrokenOff } from '../flow/pump.ts';

export class LiveExchange {
  readonly front: FrontExchange;
  readonly #connection: InterceptedConnection;
  readonly #gone = new AbortController();
  /** What has left HTTP is framed from its beginning, or never. */
  readonly #isGoverned: boolean;
  /** Those that can still be put into it. */
  #traffic: TrafficSecrets | undefined;
  readonly #onSent: () => void;
  /** What has been approved for this request, beside its connection. */
  readonly #consent: Consent;
  /** While a person is asked: aborts when the rules have changed. */
  #asking: AbortController | undefined;
  #isSent = false;

  /** @param onSent called when all of it has left */
  constructor(front: FrontExchange, connection: InterceptedConnection, onSent: () => void) {
    this.front = front;
    this.#onSent = onSent;
    this.#connection = connection;
    this.#consent = new Consent(() => connection.policy);
    this.#isGoverned = this.#needsRequests;
    front.onGone(() => this.giveUp());
  }

  /** Aborts when nobody waits for the answer any more. */
  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  /** Calls `then` when nobody waits any more, at once where that is so already. */
  onGone(then: () => void): void {
    if (this.signal.aborted) then();
    else this.signal.addEventListener('abort', then, { once: true });
  }

  /** The secrets as they are now, for the whole of this exchange. */
  takeSecrets(): TrafficSecrets {
    const { traffic } = this.#connection.secrets;
    this.#traffic = traffic;
    return traffic;
  }

  /** All of it has left, and nothing is put into it any more. */
  hasSent(): void {
    this.#traffic = undefined;
    this.#isSent = true;
    this.#onSent();
  }

  get isSent(): boolean {
    return this.#isSent;
  }

  /** Waits for a person where the policy asks one. The request's body waits as well. */
  async judgement(): Promise<Judgement> {
    for (;;) {
      const judgement = judge(this.front.head, this.#connection, this.#consent.policy);
      if (judgement.kind === 'go' || judgement.question === undefined) return judgement;
      const { question, rule } = judgement;
      const { method, target } = this.front.head;
      const [path = ''] = target.split('?', 1);
      this.#asking = new AbortController();
      const signal = AbortSignal.any([this.signal, this.#asking.signal]);
      const refusal = await this.#connection.ask({ question, rule, method, path }, signal);
      const isAnswered = !signal.aborted;
      this.#asking = undefined;
      if (this.signal.aborted) return judgement;
      if (refusal !== undefined) return denied(refusal, this.front.head, this.#connection);
      if (isAnswered) this.#consent.give(question);
    }
  }

  /** The program has ended its side: where it waits for a person it is taken for gone. */
  hearEnd(): void {
    if (this.#asking === undefined) return;
    this.giveUp();
    this.front.abort();
  }

  giveUp(): void {
    this.#gone.abort(new BrokenOff('sink'));
  }

  /** Judges it again. True: it was ended. */
  review(): boolean {
    if (this.#asking !== undefined) {
      this.#asking.abort();
      return false;
    }
    if (this.signal.aborted || this.#isStillRight()) return false;
    this.giveUp();
    this.front.abort();
    return true;
  }

  get #needsRequests(): boolean {
    const { policy, destination } = this.#connection;
    return policy.needsRequests(destination);
  }

  #isStillRight(): boolean {
    if (judge(this.front.head, this.#connection, this.#consent.policy).kind === 'refuse') return false;
    if (this.front.head.upgrade !== undefined && this.#needsRequests && !this.#isGoverned) return false;
    const { destination, secrets } = this.#connection;
    return this.#traffic === undefined || this.#traffic.isSameFor(destination, secrets.traffic);
  }
}
