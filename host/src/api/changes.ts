/** `change.*`: what a sandbox has written over a directory of the host. */
import { Readable } from 'node:stream';
import type { changeOperations } from '@squash/contract/operations/changes';
import type { Engine } from '../engine/engine.ts';
import type { Places } from '../http/places.ts';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';

export function changeHandlers(
  { changes }: Engine,
  { treeReads }: { readonly treeReads: Places },
): HandlersOf<typeof changeOperations> {
  return {
    'change.list': ({ params, query, caller }) =>
      treeReads.hold(caller.owner, async () => json(await changes.list(params.id, query))),
    'change.file': ({ params, query, caller }) =>
      treeReads.hold(caller.owner, async () => {
        const bytes = await changes.read(params.id, query);
        return {
          type: 'bytes',
          contentType: 'application/octet-stream',
          bytes: bytes.length,
          pieces: Readable.from([bytes]),
          onEnd: () => {},
        };
      }),
    'change.apply': ({ params, body, caller }) =>
      treeReads.hold(caller.owner, async () => json(await changes.apply(params.id, body))),
  };
}
