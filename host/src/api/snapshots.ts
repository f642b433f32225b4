/**
 * `snapshot.*`, and what the original has of it. An upload goes to a file in `tmp/` as it comes, then the engine
 * verifies it and takes it over.
 */
import { limits } from '@squash/contract/limits';
import type { snapshotOperations } from '@squash/contract/operations/snapshots';
import type { Engine } from '../engine/engine.ts';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { receiveUpload } from '../http/upload.ts';
import { Places } from '../http/places.ts';
import { download } from './download.ts';

type SnapshotOperations = typeof snapshotOperations;

export interface UploadPlace {
  /** Absolute path of the data directory's `tmp/`. */
  readonly directory: string;
  readonly places: Places;
}

export function snapshotHandlers(
  { sandboxes, snapshots }: Engine,
  { uploads, treeReads }: { readonly uploads: UploadPlace; readonly treeReads: Places },
): HandlersOf<SnapshotOperations> {
  const downloads = new Places('downloads are in progress', limits.downloadsMax);
  return {
    'snapshot.create': async ({ params, body }) => json(await snapshots.take(params.id, body)),
    'snapshot.list': async ({ params, query }) => json(await snapshots.page(params.id, query)),
    'snapshot.get': async ({ params }) => json(await snapshots.get(params.id, params.label)),
    'snapshot.update': async ({ params, body }) =>
      json(await snapshots.update(params.id, params.label, body)),
    'snapshot.remove': async ({ params }) => {
      await snapshots.remove(params.id, params.label);
      return empty;
    },
    'snapshot.restore': async ({ params, body }) => {
      await snapshots.restore(params.id, { label: body.snapshot, memory: body.memory });
      return json(sandboxes.describe(params.id));
    },
    'snapshot.diff': ({ params, query, caller }) =>
      treeReads.hold(caller.owner, async () => json(await snapshots.diff(params.id, params.label, query))),
    'snapshot.download': ({ params, caller }) =>
      download(downloads, caller.owner, () => snapshots.open(params.id, params.label)),
    'snapshot.upload': async ({ params, incoming, caller, checkOwner }) =>
      uploads.places.hold(caller.owner, async () => {
        // Before gigabytes are received for nobody.
        sandboxes.ownerOf(params.id);
        await using upload = await receiveUpload(incoming, uploads.directory);
        checkOwner();
        return json(await snapshots.takeIn(params.id, params.label, upload.path));
      }),
    'seed.snapshot': async ({ params, body }) => {
      const { label, size_bytes, pause_ms } = await snapshots.take(params.id, body);
      return json({ snapshot: label, size: size_bytes, pause_ms });
    },
    'seed.restore': async ({ params, body }) => {
      await snapshots.restore(params.id, { label: body.label });
      return json(sandboxes.get(params.id));
    },
  };
}
