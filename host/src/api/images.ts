/** `image.*`: OCI images. An import goes to a file in `tmp/` as it comes, and is looked through when it is whole. */
import type { imageOperations } from '@squash/contract/operations/images';
import type { Engine } from '../engine/engine.ts';
import { cutPage } from '../engine/page.ts';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { receiveUpload } from '../http/upload.ts';
import type { UploadPlace } from './snapshots.ts';

export function imageHandlers(
  { images }: Engine,
  { directory, places }: UploadPlace,
): HandlersOf<typeof imageOperations> {
  return {
    'image.list': ({ query }) => {
      const found = images.list({ withSteps: query.all === true });
      return json(cutPage(found, query, { placeOf: ({ name }) => ({ createdMs: 0, id: name }) }));
    },
    'image.commit': async ({ body, signal }) => json(await images.commit(body, signal)),
    'image.get': ({ params }) => json(images.get(params.image)),
    'image.pull': async ({ body, signal }) => {
      const wish = { waitMs: body.wait_ms, isAgain: body.again };
      return json(await images.pull(body.reference, wish, signal));
    },
    'image.import': ({ query, incoming, caller, signal }) =>
      places.hold(caller.owner, async () => {
        await using upload = await receiveUpload(incoming, directory);
        return json(await images.import(upload.path, { name: query.name, pick: query.pick }, signal));
      }),
    'image.remove': async ({ params }) => {
      await images.remove(params.image);
      return empty;
    },
  };
}
