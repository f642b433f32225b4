/** `squash ssh-key ls`: the public keys that log in over SSH, by id. */
import type { SshKey } from '@squash/contract/ssh-keys';
import { apiPath, type Query } from '../client/client.ts';
import { everyItem } from '../client/every-item.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatAge, printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const owner = call.flags.text('owner');
  const items = await everyItem<SshKey>(call.client, (cursor) => sshKeysPath([], { owner, cursor }));
  if (call.json) printJson({ items, next: null });
  else {
    printTable<SshKey>(
      [
        { title: 'ID', text: (each) => each.id },
        { title: 'OWNER', text: (each) => each.owner },
        { title: 'SCOPE', text: (each) => each.scope },
        { title: 'FINGERPRINT', text: (each) => each.fingerprint },
        { title: 'EXPIRES', text: (each) => each.expires_at ?? 'never' },
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

export function sshKeysPath(more: readonly string[] = [], query: Query = {}): string {
  return apiPath(['v1', 'ssh-keys', ...more], query);
}
