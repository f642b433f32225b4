/**
 * One request under way, until the last byte of its answer: how it is given up, and whether it may go on when the rules
 * have changed.
 *
 * What a newcomer would get wrong: a request keeps the secrets that it began with. While something can still be put into it,
 * because it is not wholly sent or has left HTTP, other secrets are its end; who only waits for an answer may have it.
 */
import type { InterceptedConnection } from '../ports.ts';
import type { TrafficSecrets } from '../secrets/traffic-secrets.ts';
import { judge } from './judgement.ts';
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
  #isSent = false;

  /** @param onSent called when all of it has left */
  constructor(front: FrontExchange, connection: InterceptedConnection, onSent: () => void) {
    this.front = front;
    this.#onSent = onSent;
    this.#connection = connection;
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

  giveUp(): void {
    this.#gone.abort(new BrokenOff('sink'));
  }

  /** Judges it again. True: it was ended. */
  review(): boolean {
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
    if (judge(this.front.head, this.#connection).kind === 'refuse') return false;
    if (this.front.head.upgrade !== undefined && this.#needsRequests && !this.#isGoverned) return false;
    const { destination, secrets } = this.#connection;
    return this.#traffic === undefined || this.#traffic.isSameFor(destination, secrets.traffic);
  }
}
