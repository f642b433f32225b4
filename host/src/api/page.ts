/** One page of a list that is sorted by a name: the cursor is the last name of the page before. */
import { limits } from '@squash/contract/limits';

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

export function pageOf<Item>(
  sorted: readonly Item[],
  nameOf: (item: Item) => string,
  {
    limit = limits.pageItemsDefault,
    cursor,
  }: { readonly limit?: number | undefined; readonly cursor?: string | undefined },
): Page<Item> {
  const rest = cursor === undefined ? sorted : sorted.filter((item) => nameOf(item) > cursor);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return { items, next: last === undefined || items.length === rest.length ? null : nameOf(last) };
}
