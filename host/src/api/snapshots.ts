/**
 * `sandbox.snapshot`, `sandbox.restore` and `snapshot.*`. An upload goes to a file in `tmp/` as it comes, then the engine
 * verifies it and takes it over.
 */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { snapshotOperations } from '@squash/contract/operations/snapshots';
import type { Engine } from '../engine/engine.ts';
import { empty, json } from '../http/reply.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { receiveUpload } from '../http/upload.ts';
import type { Places } from '../http/places.ts';

type SnapshotOperations = typeof snapshotOperations;

export interface UploadPlace {
  /** Absolute path of the data directory's `tmp/`. */
  readonly directory: string;
  readonly places: Places;
}

export function snapshotHandlers(
  { snapshots }: Engine,
  uploads: UploadPlace,
): HandlersOf<SnapshotOperations> {
  return {
    'sandbox.snapshot': async ({ params, body }) => {
      const { label, size, pauseMs } = await snapshots.take(params.id, body.label);
      return json({ snapshot: label, size, pause_ms: pauseMs });
    },
    'sandbox.restore': async ({ params, body }) => json(await snapshots.restore(params.id, body.label)),
    'snapshot.list': async ({ params }) => json(await snapshots.list(params.id)),
    'snapshot.get': async ({ params }) => json(await snapshots.get(params.id, params.label)),
    'snapshot.remove': async ({ params }) => {
      await snapshots.remove(params.id, params.label);
      return empty;
    },
    'snapshot.download': downloading(snapshots),
    'snapshot.upload': async ({ params, incoming, checkOwner }) =>
      uploads.places.hold(async () => {
        // Before gigabytes are received for nobody.
        await snapshots.list(params.id);
        await using upload = await receiveUpload(incoming, uploads.directory);
        checkOwner();
        return json(await snapshots.takeIn(params.id, params.label, upload.path));
      }),
  };
}

function downloading(snapshots: Engine['snapshots']): Handler<SnapshotOperations['snapshot.download']> {
  let running = 0;
  return async ({ params }) => {
    if (running >= limits.downloadsMax) {
      throw new AppError('stream_limit', `${limits.downloadsMax} downloads are in progress: try again later`);
    }
    running += 1;
    const onEnd = (): void => {
      running -= 1;
    };
    try {
      const file = await snapshots.open(params.id, params.label);
      const { size: bytes } = await file.stat();
      return { type: 'file', contentType: 'application/octet-stream', file, bytes, onEnd };
    } catch (error) {
      onEnd();
      throw error;
    }
  };
}
