/** All of a list, page by page. */
import type { Client } from './client.ts';

interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

export async function everyItem<Item>(
  client: Client,
  pathOf: (cursor: string | undefined) => string,
): Promise<readonly Item[]> {
  const items: Item[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page: Page<Item> = await client.get(pathOf(cursor));
    items.push(...page.items);
    cursor = page.next;
  }
  return items;
}
