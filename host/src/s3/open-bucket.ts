/** Puts together what the daemon has of its bucket. Loaded only where it has one. */
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isErrno } from '@squash/base/errno';
import type { Log } from '@squash/base/log';
import type { S3Config } from '../config/config.ts';
import type { LayerStore } from '../layers/layer-store.ts';
import { BucketModules } from './bucket-modules.ts';
import { BucketObjects } from './bucket-objects.ts';
import { BucketSnapshots } from './bucket-snapshots.ts';
import { Bucket } from './bucket.ts';

export interface OpenBucket extends AsyncDisposable {
  readonly modules: BucketModules;
  readonly snapshots: BucketSnapshots;
  readonly objects: BucketObjects;
}

export function openBucket(
  s3: S3Config,
  { dataDir, layers, log }: { readonly dataDir: string; readonly layers: LayerStore; readonly log: Log },
): OpenBucket {
  const bucket = new Bucket(s3);
  const parts = { bucket, tmp: join(dataDir, 'tmp'), log };
  const modules = new BucketModules({ ...parts, s3, layers });
  const snapshots = new BucketSnapshots({ ...parts, name: s3.bucket, origin: originOf(dataDir) });
  const objects = new BucketObjects(bucket, s3);
  return {
    modules,
    snapshots,
    objects,
    async [Symbol.asyncDispose]() {
      objects[Symbol.dispose]();
      await Promise.all([modules[Symbol.asyncDispose](), snapshots[Symbol.asyncDispose]()]);
      bucket[Symbol.dispose]();
    },
  };
}

/** A number that this installation's objects bear. One without it, or with half of it, counts as a new installation. */
function originOf(dataDir: string): string {
  const path = join(dataDir, 's3-origin');
  try {
    const known = readFileSync(path, 'utf8').trim();
    if (/^[0-9a-f]{32}$/.test(known)) return known;
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
  }
  const fresh = randomBytes(16).toString('hex');
  writeFileSync(path, `${fresh}\n`);
  return fresh;
}
