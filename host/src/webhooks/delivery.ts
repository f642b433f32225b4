/**
 * The deliveries of one webhook: its events one after another, each until it is taken, with longer and longer pauses. Its own
 * worker, so that a receiver that is slow or away holds up nobody else's.
 *
 * What a newcomer would get wrong: pauses grow with the receiver's failures, not with one event's. While it is away what is
 * older than a day is given up without a try; once it is back everything that is left comes without pauses, in order.
 */
import { errorText } from '@squash/base/bug';
import type { Clock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import { pause } from '@squash/base/pause';
import type { Event } from '@squash/contract/events';
import { limits } from '@squash/contract/limits';
import type { Cidr } from '@squash/policy/address/cidr';
import type { WebhookChange, WebhookRow } from '#store/webhooks.ts';
import type { Events } from '../engine/events.ts';
import { send } from './send.ts';
import { signedHeaders } from './signature.ts';

export interface DeliveryOptions {
  readonly events: Events;
  readonly clock: Clock;
  readonly log: Log;
  readonly allowed: readonly Cidr[];
}

/** The row of now, and how it is changed. */
export interface Delivered {
  readonly row: () => WebhookRow;
  readonly change: (change: WebhookChange) => void;
}

/** Whoever is at this address says that he wants no more. */
const gone = 410;

export class Delivery implements AsyncDisposable {
  readonly #options: DeliveryOptions;
  readonly #webhook: Delivered;
  readonly #stopping = new AbortController();
  readonly #done: Promise<void>;
  #failures = 0;
  #nextMs: number | null = null;

  constructor(options: DeliveryOptions, webhook: Delivered) {
    this.#options = options;
    this.#webhook = webhook;
    this.#done = this.#work();
  }

  /** Wall clock; null: nothing is waited for. */
  get nextAttemptMs(): number | null {
    return this.#nextMs;
  }

  /** Resolves when nothing of it is on its way. What was, is sent again by the next. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  async #work(): Promise<void> {
    const { signal } = this.#stopping;
    const { position } = this.#webhook.row();
    try {
      for await (const one of this.#options.events.follow(filterOf(this.#webhook.row()), position, signal)) {
        if (one.type === 'gap') this.#webhook.change({ missedBefore: one.removedBefore });
        if (one.type === 'event') await this.#deliver(one.event);
        if (signal.aborted) return;
      }
    } catch (error) {
      // The database: it is looked at again with the next start or change of the webhook.
      if (!signal.aborted)
        this.#options.log.error('webhook.fault', { webhook: this.#webhook.row().id, error });
    }
  }

  async #deliver(event: Event): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      if (this.#failures > 0 && this.#isTooOld(event)) {
        this.#webhook.change({ position: event.id, givenUp: this.#webhook.row().givenUp + 1 });
        return;
      }
      const row = this.#webhook.row();
      const message = { id: `${row.id}_${event.id}`, event, signal };
      const { status, error } = await sendEvent(this.#options, row, message);
      if (signal.aborted) return;
      const nowMs = this.#options.clock.wallMs();
      if (error === null) {
        this.#failures = 0;
        this.#webhook.change({ position: event.id, lastSuccessMs: nowMs, lastError: null });
        return;
      }
      this.#failures += 1;
      this.#webhook.change({ lastFailureMs: nowMs, lastError: error });
      if (status === gone) return this.#disable();
      await this.#wait(nowMs);
    }
  }

  #isTooOld({ at }: Event): boolean {
    return this.#options.clock.wallMs() - Date.parse(at) > limits.webhookTryMs;
  }

  #disable(): void {
    this.#stopping.abort();
    this.#webhook.change({ isEnabled: false });
  }

  async #wait(nowMs: number): Promise<void> {
    const ms = Math.min(limits.webhookPauseMs * 2 ** (this.#failures - 1), limits.webhookPauseMsMax);
    this.#nextMs = nowMs + ms;
    await pause(ms, this.#stopping.signal);
    this.#nextMs = null;
  }
}

export function filterOf({ types, owner }: Pick<WebhookRow, 'types' | 'owner'>) {
  return { types: types.length === 0 ? null : types, owner, sandbox: null };
}

export interface Tried {
  readonly status: number | null;
  /** Null: it was taken. */
  readonly error: string | null;
}

export interface Message {
  /** The same for every try. */
  readonly id: string;
  readonly event: Omit<Event, 'type'> & { readonly type: string };
  readonly signal: AbortSignal;
}

/** Never rejects. */
export async function sendEvent(
  { allowed, clock }: Pick<DeliveryOptions, 'allowed' | 'clock'>,
  { url, secret }: Pick<WebhookRow, 'url' | 'secret'>,
  { id, event, signal }: Message,
): Promise<Tried> {
  const body = JSON.stringify(event);
  const headers = signedHeaders({ id, body }, secret, clock.wallMs());
  try {
    const status = await send({ url, headers, body }, allowed, signal);
    if (status >= 200 && status < 300) return { status, error: null };
    const why = status >= 300 && status < 400 ? ': redirects are not followed' : '';
    return { status, error: `answered ${status}${why}` };
  } catch (error) {
    return { status: null, error: errorText(error).slice(0, limits.eventTextCharsMax) };
  }
}
