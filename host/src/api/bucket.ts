/** `bucket.*` */
import type { bucketOperations } from '@squash/contract/operations/bucket';
import type { Engine } from '../engine/engine.ts';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';

export function bucketHandlers({ bucket }: Engine): HandlersOf<typeof bucketOperations> {
  return {
    'bucket.get': async () => json(bucket.get()),
    'bucket.list': async ({ query }) => json(await bucket.list(query.prefix)),
    'bucket.push': async ({ body }) => {
      await bucket.push(body);
      return empty;
    },
    'bucket.pull': async ({ body }) => {
      await bucket.pull(body);
      return empty;
    },
    'bucket.remove': async ({ query }) => {
      await bucket.remove(query.key);
      return empty;
    },
  };
}
