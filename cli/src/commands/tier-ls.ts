/** `squash tier ls`: the tiers, a row of the matrix each. */
import type { Tier } from '@squash/contract/tiers';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { type All, tiersPath } from '../group-paths.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ client, json }: Call): Promise<number> {
  const list = await client.get<All<Tier>>(tiersPath());
  if (json) printJson(list);
  else
    printTable<Tier>(
      [
        { title: 'NAME', text: ({ name }) => name },
        { title: 'MESSAGE', text: ({ message }) => `${message.own}/${message.others}` },
        { title: 'START', text: ({ start }) => `${start.own}/${start.others}` },
        { title: 'READ', text: ({ read }) => `${read.own}/${read.others}` },
        { title: 'SCHEDULE', text: scheduleText },
        { title: 'CREATE', text: createText },
        { title: 'REACH', text: ({ reach }) => reach.join(',') || 'nothing' },
        {
          title: 'SECRETS',
          text: ({ secrets }) => (secrets === 'all' ? secrets : secrets.join(',') || 'none'),
        },
        { title: 'MOUNTS', text: ({ mounts }) => mounts },
        { title: 'GLOBAL', text: ({ global_memory: mode }) => mode },
        { title: 'WARM', text: ({ warm_s: seconds }) => (seconds === 0 ? 'no' : `${seconds}s`) },
      ],
      list.items,
    );
  return exitCodes.ok;
}

function scheduleText({ schedule: { own, others }, schedule_every_s_min: least }: Tier): string {
  return `${own}/${others} ${least}s`;
}

function createText({ create, create_tiers: tiers }: Tier): string {
  return tiers.length === 0 ? create : `${create} ${tiers.join(',')}`;
}
