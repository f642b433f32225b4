/** `squash keys ls`: the keys by id. Never a token: the daemon does not have them. */
import type { KeyInfo } from '@squash/contract/keys';
import { apiPath, type Query } from '../client/client.ts';
import { everyItem } from '../client/every-item.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatAge, printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const owner = call.flags.text('owner');
  const items = await everyItem<KeyInfo>(call.client, (cursor) => keysPath([], { owner, cursor }));
  if (call.json) printJson({ items, next: null });
  else {
    printTable<KeyInfo>(
      [
        { title: 'ID', text: (each) => each.id },
        { title: 'OWNER', text: (each) => each.owner },
        { title: 'SCOPE', text: (each) => each.scope },
        { title: 'EXPIRES', text: expiry, style: expired },
        {
          title: 'USED',
          text: ({ last_used_at: used }) => (used === null ? 'never' : `${formatAge(used)} ago`),
        },
        { title: 'NAME', text: (each) => each.name },
      ],
      items,
    );
  }
  return exitCodes.ok;
}

function expiry({ expires_at: expires }: KeyInfo): string {
  if (expires === null) return 'never';
  // An age the other way round.
  const left = formatAge(new Date().toISOString(), Date.parse(expires));
  return Date.parse(expires) <= Date.now() ? `${formatAge(expires)} ago` : `in ${left}`;
}

function expired({ expires_at: expires }: KeyInfo): 'red' | undefined {
  return expires !== null && Date.parse(expires) <= Date.now() ? 'red' : undefined;
}

export function keysPath(more: readonly string[] = [], query: Query = {}): string {
  return apiPath(['v1', 'keys', ...more], query);
}
