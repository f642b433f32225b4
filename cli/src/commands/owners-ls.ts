/** `squash owners ls`: who has sandboxes, keys or a quota. */
import type { OwnerInfo, Quota } from '@squash/contract/keys';
import { apiPath, type Query } from '../client/client.ts';
import { everyItem } from '../client/every-item.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const items = await everyItem<OwnerInfo>(call.client, (cursor) => ownersPath({ cursor }));
  if (call.json) printJson({ items, next: null });
  else {
    printTable<OwnerInfo>(
      [
        { title: 'OWNER', text: (each) => each.owner },
        { title: 'KEYS', text: (each) => `${each.keys}`, align: 'right' },
        { title: 'SANDBOXES', text: shown('sandboxes'), align: 'right' },
        { title: 'MEMORY', text: shown('memory_mb'), align: 'right' },
        { title: 'CPU', text: shown('cpu'), align: 'right' },
        { title: 'DISK', text: shown('disk_mb'), align: 'right' },
        { title: 'EXECS', text: shown('execs'), align: 'right' },
      ],
      items,
    );
  }
  return exitCodes.ok;
}

function shown(part: keyof Quota): (info: OwnerInfo) => string {
  return ({ quota, use }) => {
    const used = Math.round(use[part] * 100) / 100;
    return quota[part] === null ? `${used}` : `${used}/${quota[part]}`;
  };
}

export function ownersPath(query: Query = {}): string {
  return apiPath(['v1', 'owners'], query);
}
