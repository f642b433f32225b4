/** Lists of `/v1`, all pages of them. */
import type { Flags } from '../arguments.ts';
import type { Client, Query } from './client.ts';

interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

/** As many as the API gives at once. */
const pageItems = 1_000;

/** A daemon of the first release answers a list with all of it at once. */
export async function listAll<T>(client: Client, path: string, query: Query = {}): Promise<readonly T[]> {
  const found: T[] = [];
  let cursor: string | undefined;
  do {
    const pairs = Object.entries({ ...query, limit: pageItems, cursor })
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}=${encodeURIComponent(`${value}`)}`);
    const page = await client.get<Page<T> | readonly T[]>(`${path}?${pairs.join('&')}`);
    if (!('items' in page)) return page;
    found.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  return found;
}

/** What `--label`, given once or more often, asks a list for. */
export function labelQuery(flags: Flags): string | undefined {
  return flags.isSet('label') ? flags.list('label').join(',') : undefined;
}
