/** A list of any length, as it is read: the next page is asked for when it is reached. */
import { type Connection, fieldOf, type OperationId, type Signal } from './connection.ts';
import type { Operations } from './records.gen.ts';
import { protocolError } from './protocol-error.ts';

/** The operations that answer a page. */
type ListId = {
  [Id in OperationId]: Operations[Id]['answer'] extends {
    readonly items: readonly unknown[];
    readonly next: string | null;
  }
    ? Id
    : never;
}[OperationId];

export type ItemOf<Id extends ListId> = Operations[Id]['answer']['items'][number];

export interface ListOptions<Id extends ListId> extends Signal {
  readonly path?: Operations[Id]['path'];
  /** What is asked for; `limit` is how many there are in a page. */
  readonly query?: Operations[Id]['query'];
}

export async function* everyItem<Id extends ListId>(
  connection: Connection,
  id: Id,
  { query, ...options }: ListOptions<Id>,
): AsyncGenerator<ItemOf<Id>, void, void> {
  let cursor: string | null = null;
  do {
    const asked = { ...query, ...(cursor !== null && { cursor }) } as Operations[Id]['query'];
    const page: Operations[Id]['answer'] = await connection.call(id, { ...options, query: asked });
    const items = fieldOf(page, 'items', 'object');
    if (!Array.isArray(items)) throw protocolError("the daemon's answer is no list");
    for (const item of items) yield item as ItemOf<Id>;
    // A daemon that sends us in circles would never end.
    if (page.next === cursor && cursor !== null) throw protocolError('the daemon names the same page again');
    cursor = typeof page.next === 'string' ? page.next : null;
  } while (cursor !== null);
}
