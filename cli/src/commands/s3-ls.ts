/** `squash s3 ls`: what lies in the bucket. */
import type { BucketList, BucketObject } from '@squash/contract/bucket';
import { bucketPath } from '../bucket-words.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine, printNote, visible } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ client, positionals, flags, json }: Call): Promise<number> {
  const [prefix = ''] = positionals;
  const list = await client.get<BucketList>(bucketPath(['objects'], { prefix }));
  if (json) printJson(list);
  else if (flags.isSet('quiet')) for (const { key } of list.items) printLine(visible(key));
  else
    printTable<BucketObject>(
      [
        { title: 'KEY', text: ({ key }) => key },
        { title: 'SIZE', text: ({ size_bytes }) => formatBytes(size_bytes), align: 'right' },
        { title: 'CHANGED', text: ({ modified_at }) => modified_at },
      ],
      list.items,
    );
  if (!list.complete) printNote('There are more: give a longer prefix.');
  return exitCodes.ok;
}
