/** `squash volume ls`: the volumes, and which sandboxes have them. */
import type { VolumeInfo } from '@squash/contract/volume';
import type { Client } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { volumesPath } from '../mount-words.ts';
import { printJson, printLine } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ client, flags, json }: Call): Promise<number> {
  const volumes = await listVolumes(client);
  if (json) printJson(volumes);
  else if (flags.isSet('quiet')) for (const { name } of volumes) printLine(name);
  else {
    printTable<VolumeInfo>(
      [
        { title: 'NAME', text: (each) => each.name },
        { title: 'ID', text: (each) => each.id },
        { title: 'OWNER', text: (each) => each.owner },
        {
          title: 'SIZE',
          text: (each) => (each.size_mb === null ? '' : `${each.size_mb} MiB`),
          align: 'right',
        },
        { title: 'KIND', text: (each) => (each.snapshot_of === null ? 'volume' : 'snapshot') },
        {
          title: 'ATTACHED',
          text: (each) => each.attached_to.map(({ sandbox, mode }) => `${sandbox}:${mode}`).join(','),
        },
      ],
      volumes,
    );
  }
  return exitCodes.ok;
}

/** All pages. */
export async function listVolumes(client: Pick<Client, 'get'>): Promise<readonly VolumeInfo[]> {
  const all: VolumeInfo[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: string = cursor === '' ? '' : `?cursor=${encodeURIComponent(cursor)}`;
    const page: { items: VolumeInfo[]; next: string | null } = await client.get(`${volumesPath()}${query}`);
    all.push(...page.items);
    cursor = page.next;
  }
  return all;
}
