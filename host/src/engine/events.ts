/**
 * What happened to sandboxes: kept in bounds, read page by page, followed as it happens.
 *
 * A follower reads the table only when something that he wants was told, and a page at a time, as fast as his client takes it:
 * whoever does not read costs one page, and one whose events were removed meanwhile is told so.
 */
import { type Clock, rfc3339 } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { Event, EventFilter } from '@squash/contract/events';
import { limits } from '@squash/contract/limits';
import type { EventPage, EventRow, NewEvent } from '#store/events.ts';
import type { Store } from '#store/store.ts';
import type { EventPort, EventSubject, SandboxEvent } from '../sandbox/event-port.ts';

export type Followed =
  | { readonly type: 'event'; readonly event: Event }
  /** Events before this id are missing from what was followed. */
  | { readonly type: 'gap'; readonly removedBefore: number }
  /** Everything up to here was told: the place to resume at where nothing has come yet. */
  | { readonly type: 'position'; readonly id: number };

export interface Events {
  /** Without `after` the newest. */
  page(page: EventPage): { readonly events: readonly Event[]; readonly removedBefore: number };
  /** What is behind `after` (null: behind what there is), then each event as it happens, until `signal`. */
  follow(
    filter: EventFilter,
    after: number | null,
    signal: AbortSignal,
  ): AsyncGenerator<Followed, void, void>;
}

interface Waiter {
  readonly filter: EventFilter;
  readonly wake: () => void;
}

export class LocalEvents implements Events, EventPort, Disposable {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #waiters = new Set<Waiter>();
  #fresh: NewEvent[] = [];
  #telling: NodeJS.Immediate | undefined;

  constructor(store: Store, clock: Clock, log: Log) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  tell({ id, owner }: EventSubject, { type, data = {} }: SandboxEvent): void {
    const event = { atMs: this.#clock.wallMs(), type, sandbox: id, owner, data };
    this.#store.events.insert(event);
    this.#fresh.push(event);
    // Behind the transaction, which never waits: one that is rolled back wakes somebody who then finds nothing.
    this.#telling ??= setImmediate(() => this.#wake());
  }

  page(page: EventPage): { readonly events: readonly Event[]; readonly removedBefore: number } {
    const { events } = this.#store;
    return this.#store.read(() => ({
      events: events.page(page).map(shown),
      removedBefore: events.removedBefore(page.owner),
    }));
  }

  async *follow(
    filter: EventFilter,
    from: number | null,
    signal: AbortSignal,
  ): AsyncGenerator<Followed, void, void> {
    const newest = this.#store.read(() => this.#store.events.newest());
    // Behind the newest one: the database was rebuilt, and all that it has came after.
    const isOther = from !== null && from > newest;
    let after = isOther ? 0 : (from ?? newest);
    if (isOther) yield { type: 'gap', removedBefore: from };
    let gapTold = isOther ? 0 : after;
    yield { type: 'position', id: after };
    while (!signal.aborted) {
      const { events, removedBefore } = this.page({ ...filter, after, limit: limits.eventsFollowedPage });
      const upTo = this.#store.read(() => this.#store.events.newest());
      if (removedBefore > after + 1 && removedBefore > gapTold) {
        gapTold = removedBefore;
        yield { type: 'gap', removedBefore };
      }
      for (const event of events) {
        yield { type: 'event', event };
        after = event.id;
      }
      if (events.length > 0) continue;
      after = upTo;
      await this.#woken(filter, signal);
    }
  }

  /** What was skipped for a power cut is skipped once: at the first start of a boot. */
  skipLost(): void {
    this.#store.transaction(() => this.#store.events.skipLost());
  }

  [Symbol.dispose](): void {
    if (this.#telling !== undefined) clearImmediate(this.#telling);
    for (const { wake } of this.#waiters) wake();
  }

  async #woken(filter: EventFilter, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = (): void => resolve();
    const waiter = { filter, wake };
    this.#waiters.add(waiter);
    signal.addEventListener('abort', wake, { once: true });
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', wake);
      this.#waiters.delete(waiter);
    }
  }

  #wake(): void {
    this.#telling = undefined;
    const fresh = this.#fresh;
    this.#fresh = [];
    for (const { filter, wake } of this.#waiters) if (fresh.some((event) => matches(event, filter))) wake();
    if (!this.#store.events.isOverfull) return;
    try {
      this.#store.transaction(() => this.#store.events.prune());
    } catch (error) {
      // A full disk: the next event tries again, and finds no more room than this one had.
      this.#log.warn('events.prune', { error });
    }
  }
}

function matches(event: NewEvent, { types, sandbox, owner }: EventFilter): boolean {
  return (
    (types === null || types.includes(event.type)) &&
    (sandbox === null || event.sandbox === sandbox) &&
    (owner === null || event.owner === owner)
  );
}

function shown({ id, atMs, type, sandbox, owner, data }: EventRow): Event {
  return { id, at: rfc3339(atMs), type, sandbox, owner, data };
}
