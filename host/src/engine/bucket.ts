/** The bucket itself: what lies there, and what is brought there or back at somebody's word. */
import type { BucketInfo, BucketList, BucketPull, BucketPush } from '@squash/contract/bucket';
import { AppError } from '@squash/contract/errors';
import type { RemoteModules } from '../layers/layer-store.ts';
import type { RemoteObjects, RemoteSnapshots } from '../sandbox/remote-snapshots.ts';
import type { World } from '../sandbox/world.ts';
import type { LocalModules } from './modules.ts';
import type { Residents } from './residents.ts';
import type { LocalSnapshots } from './snapshots.ts';

/** Each method @throws bucket_not_set, bucket_unavailable */
export interface BucketNoun {
  get(): BucketInfo;
  list(prefix: string): Promise<BucketList>;
  /** @throws bucket_conflict, module_not_found, snapshot_not_found */
  push(wish: BucketPush): Promise<void>;
  /** @throws module_not_found, snapshot_not_found, layer_corrupt, disk_full */
  pull(wish: BucketPull): Promise<void>;
  remove(key: string): Promise<void>;
}

export interface EngineBucket {
  readonly modules: RemoteModules;
  readonly snapshots: RemoteSnapshots;
  readonly objects: RemoteObjects;
}

export interface BucketParts {
  readonly world: World;
  readonly bucket: EngineBucket | undefined;
  readonly isEphemeral: boolean;
  readonly residents: Residents;
  readonly modules: LocalModules;
  readonly snapshots: LocalSnapshots;
}

export class LocalBucket implements BucketNoun {
  readonly #parts: BucketParts;

  constructor(parts: BucketParts) {
    this.#parts = parts;
  }

  get(): BucketInfo {
    const { modules, snapshots, objects } = this.#bucket;
    const problems = [...modules.problems(), ...snapshots.problems()].map(({ message }) => message);
    const pending = modules.pending + snapshots.pending;
    return { ...objects.about, ephemeral: this.#parts.isEphemeral, pending, problems };
  }

  async list(prefix: string): Promise<BucketList> {
    return await this.#bucket.objects.list(prefix);
  }

  async push(wish: BucketPush): Promise<void> {
    const { replace = false, module, sandbox: id, snapshot: label } = wish;
    const { modules, snapshots } = this.#bucket;
    if (module !== undefined) await modules.push(module, { replace });
    if (id !== undefined && label !== undefined) await snapshots.push({ id, label }, { replace });
  }

  async pull({ module, sandbox: id, snapshot: label }: BucketPull): Promise<void> {
    const { modules, snapshots, residents, world } = this.#parts;
    // Refuses where there is none.
    void this.#bucket;
    if (module !== undefined) {
      await modules.bring([module]);
      if (await world.layers.has(module)) return;
      throw new AppError('module_not_found', `module not found: ${module}`);
    }
    if (id === undefined || label === undefined) return;
    await snapshots.bring(id, label);
    if (residents.find(id).snapshots.some((each) => each.label === label)) return;
    throw new AppError(
      'snapshot_not_found',
      `Cannot find snapshot "${label}" of sandbox "${id}", here or in the bucket`,
    );
  }

  async remove(key: string): Promise<void> {
    await this.#bucket.objects.remove(key);
  }

  get #bucket(): EngineBucket {
    const { bucket } = this.#parts;
    if (bucket !== undefined) return bucket;
    throw new AppError('bucket_not_set', 'Cannot use a bucket: SQUASH_S3_BUCKET names none');
  }
}
