/** Webhooks as the API sees them: made, listed, changed, removed, tried; each that is enabled has a worker. */
import { randomBytes } from 'node:crypto';
import { type Clock, rfc3339 } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import { AppError } from '@squash/contract/errors';
import type { EventType } from '@squash/contract/event-types';
import { limits } from '@squash/contract/limits';
import { type Webhook, webhookIdSchema, type WebhookId, type WebhookTest } from '@squash/contract/webhooks';
import { type Cidr, parseCidr } from '@squash/policy/address/cidr';
import type { Store } from '#store/store.ts';
import type { WebhookChange, WebhookRow } from '#store/webhooks.ts';
import type { Events } from '../engine/events.ts';
import { Delivery, filterOf, sendEvent } from './delivery.ts';
import { newSecret } from './signature.ts';
import { checkLiteral } from './target.ts';

export interface WebhookWish {
  readonly url: string;
  readonly types: readonly EventType[];
  /** Null: everybody's. */
  readonly owner: string | null;
  readonly secret: string | undefined;
}

export interface WebhooksOptions {
  readonly store: Store;
  readonly events: Events;
  readonly clock: Clock;
  readonly log: Log;
  /** Not public and reachable all the same, in CIDR notation. */
  readonly allowRanges: readonly string[];
}

export class Webhooks implements AsyncDisposable {
  readonly #options: WebhooksOptions;
  readonly #allowed: readonly Cidr[];
  readonly #rows = new Map<WebhookId, WebhookRow>();
  readonly #deliveries = new Map<WebhookId, Delivery>();
  readonly #closing = new AbortController();

  constructor(options: WebhooksOptions) {
    this.#options = options;
    this.#allowed = options.allowRanges.flatMap((text) => parseCidr(text) ?? []);
    for (const row of options.store.read(() => options.store.webhooks.all())) {
      this.#rows.set(row.id, row);
      this.#begin(row.id);
    }
  }

  /** Its secret is told here and never again. @throws webhook_limit, webhook_address_refused, disk_full */
  create(wish: WebhookWish): Webhook & { readonly secret: string } {
    if (this.#rows.size >= limits.webhooksMax) {
      throw new AppError('webhook_limit', `there are ${this.#rows.size} webhooks: remove one first`);
    }
    checkLiteral(new URL(wish.url), this.#allowed);
    const { store, clock } = this.#options;
    const row: WebhookRow = {
      id: webhookIdSchema.parse(`wh_${randomBytes(10).toString('hex')}`),
      url: wish.url,
      types: [...wish.types],
      owner: wish.owner,
      secret: wish.secret ?? newSecret(),
      isEnabled: true,
      createdMs: clock.wallMs(),
      position: store.read(() => store.events.newest()),
      lastSuccessMs: null,
      lastFailureMs: null,
      lastError: null,
      givenUp: 0,
      missedBefore: null,
    };
    store.transaction(() => store.webhooks.put(row));
    this.#rows.set(row.id, row);
    this.#begin(row.id);
    return { ...this.#shown(row), secret: row.secret };
  }

  /** Oldest first. */
  list(): readonly Webhook[] {
    return [...this.#rows.values()].map((row) => this.#shown(row));
  }

  /** @throws webhook_not_found */
  get(id: WebhookId): Webhook {
    return this.#shown(this.#find(id));
  }

  /** @throws webhook_not_found, webhook_address_refused, disk_full */
  async update(id: WebhookId, change: Pick<WebhookChange, 'url' | 'types' | 'isEnabled'>): Promise<Webhook> {
    const isBack = change.isEnabled === true && !this.#find(id).isEnabled;
    if (change.url !== undefined) checkLiteral(new URL(change.url), this.#allowed);
    const { store } = this.#options;
    this.#change(id, { ...change, ...(isBack ? { position: store.read(() => store.events.newest()) } : {}) });
    // What is on its way to the old address is given up, and sent to the new one.
    await this.#end(id);
    this.#begin(id);
    return this.get(id);
  }

  /** @throws webhook_not_found, disk_full */
  async remove(id: WebhookId): Promise<void> {
    this.#find(id);
    const { store } = this.#options;
    store.pressing(() => store.webhooks.delete(id));
    this.#rows.delete(id);
    await this.#end(id);
  }

  /** Whether or not it is enabled. @throws webhook_not_found */
  async test(id: WebhookId): Promise<WebhookTest> {
    const row = this.#find(id);
    const { clock } = this.#options;
    const beganMs = clock.monoMs();
    const at = rfc3339(clock.wallMs());
    const event = { id: 0, at, type: 'webhook.test', sandbox: '', owner: row.owner ?? '', data: {} };
    // Receivers drop what they have had: each is a message of its own.
    const message = { id: `${id}_${randomBytes(8).toString('hex')}`, event, signal: this.#closing.signal };
    const { status, error } = await sendEvent({ clock, allowed: this.#allowed }, row, message);
    return { delivered: error === null, status, error, duration_ms: Math.round(clock.monoMs() - beganMs) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await Promise.all([...this.#deliveries.keys()].map((id) => this.#end(id)));
  }

  #find(id: WebhookId): WebhookRow {
    const row = this.#rows.get(id);
    if (row !== undefined) return row;
    throw new AppError('webhook_not_found', `Cannot find webhook "${id}"`);
  }

  #begin(id: WebhookId): void {
    if (this.#rows.get(id)?.isEnabled !== true || this.#deliveries.has(id) || this.#closing.signal.aborted)
      return;
    const delivery = new Delivery(
      { ...this.#options, allowed: this.#allowed },
      { row: () => this.#find(id), change: (change) => this.#note(id, change) },
    );
    this.#deliveries.set(id, delivery);
  }

  async #end(id: WebhookId): Promise<void> {
    const delivery = this.#deliveries.get(id);
    this.#deliveries.delete(id);
    await delivery?.[Symbol.asyncDispose]();
  }

  /** How a delivery went. On a full disk it is remembered here, and what was taken may be sent again by the next daemon. */
  #note(id: WebhookId, change: WebhookChange): void {
    if (!this.#rows.has(id)) return;
    try {
      this.#change(id, change);
    } catch (error) {
      this.#rows.set(id, { ...this.#find(id), ...change });
      this.#options.log.warn('webhook.state', { webhook: id, error });
    }
  }

  #change(id: WebhookId, change: WebhookChange): void {
    const { store } = this.#options;
    const row = { ...this.#find(id), ...change };
    store.transaction(() => store.webhooks.put(row));
    this.#rows.set(id, row);
  }

  #shown(row: WebhookRow): Webhook {
    const { store } = this.#options;
    const time = (ms: number | null): string | null => (ms === null ? null : rfc3339(ms));
    return {
      id: row.id,
      url: row.url,
      types: [...row.types],
      owner: row.owner,
      enabled: row.isEnabled,
      created_at: rfc3339(row.createdMs),
      pending: row.isEnabled ? store.read(() => store.events.count(filterOf(row), row.position)) : 0,
      last_success_at: time(row.lastSuccessMs),
      last_failure_at: time(row.lastFailureMs),
      last_error: row.lastError,
      next_attempt_at: time(this.#deliveries.get(row.id)?.nextAttemptMs ?? null),
      given_up: row.givenUp,
      missed_before: row.missedBefore,
    };
  }
}
