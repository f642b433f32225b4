/** Addresses that the daemon tells of events. */
import { type Connection, type Signal } from './connection.ts';
import type { Webhook, WebhookChange, WebhookCreate, WebhookMade, WebhookTest } from './records.gen.ts';

export class Webhooks {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `webhook.create`: the secret that signs is in this answer and nowhere else. */
  async create({ signal, ...body }: WebhookCreate & Signal): Promise<WebhookMade> {
    return await this.#connection.call('webhook.create', { body, signal });
  }

  /** `webhook.list` */
  async list(options: Signal = {}): Promise<readonly Webhook[]> {
    return (await this.#connection.call('webhook.list', options)).items;
  }

  /** `webhook.get` @throws NotFound */
  async get(webhook: string, options: Signal = {}): Promise<Webhook> {
    return await this.#connection.call('webhook.get', { path: { webhook }, ...options });
  }

  /** `webhook.update` */
  async update(webhook: string, { signal, ...body }: WebhookChange & Signal): Promise<Webhook> {
    return await this.#connection.call('webhook.update', { path: { webhook }, body, signal });
  }

  /** `webhook.remove` */
  async remove(webhook: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('webhook.remove', { path: { webhook }, ...options });
  }

  /** `webhook.test`: sends an event now and says what came back. */
  async test(webhook: string, options: Signal = {}): Promise<WebhookTest> {
    return await this.#connection.call('webhook.test', { path: { webhook }, ...options });
  }
}
