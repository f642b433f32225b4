/** `squash s3 status`: which bucket the daemon has, and whether it does what is asked of it. */
import type { BucketInfo } from '@squash/contract/bucket';
import { bucketPath } from '../bucket-words.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';

export async function run({ client, json }: Call): Promise<number> {
  const bucket = await client.get<BucketInfo>(bucketPath([]));
  if (json) printJson(bucket);
  else {
    printLine(`bucket     ${visible(bucket.name)}`);
    printLine(`endpoint   ${visible(bucket.endpoint ?? `Amazon S3, ${bucket.region}`)}`);
    printLine(`prefix     ${visible(bucket.prefix || 'none')}`);
    printLine(`mode       ${bucket.ephemeral ? 'ephemeral' : 'beside this machine'}`);
    printLine(`to push    ${bucket.pending}`);
    for (const problem of bucket.problems) printLine(`problem    ${visible(problem)}`);
  }
  return bucket.problems.length === 0 ? exitCodes.ok : exitCodes.failed;
}
