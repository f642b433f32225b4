/** `squash s3 rm`: removes objects from the bucket, for every machine. */
import type { BucketList } from '@squash/contract/bucket';
import { bucketPath } from '../bucket-words.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';

export async function run({ client, positionals, json }: Call): Promise<number> {
  const removed: string[] = [];
  for (const word of positionals) {
    // A folder, with all that lies in it.
    const keys = word.endsWith('/')
      ? (await client.get<BucketList>(bucketPath(['objects'], { prefix: word }))).items.map(({ key }) => key)
      : [word];
    for (const key of keys) {
      await client.delete(bucketPath(['objects'], { key }));
      removed.push(key);
      if (!json) printLine(visible(key));
    }
  }
  if (json) printJson({ removed });
  return exitCodes.ok;
}
