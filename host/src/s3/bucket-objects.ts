/** What lies in the bucket, whatever it is: for an operator who looks and tidies. */
import { errorText } from '@squash/base/bug';
import type { BucketObject } from '@squash/contract/bucket';
import { AppError } from '@squash/contract/errors';
import type { S3Config } from '../config/config.ts';
import type { RemoteObjects } from '../sandbox/remote-snapshots.ts';
import type { Bucket } from './bucket.ts';

const objectsMax = 10_000;

export class BucketObjects implements RemoteObjects, Disposable {
  readonly #bucket: Bucket;
  readonly #s3: S3Config;
  readonly #end = new AbortController();

  constructor(bucket: Bucket, s3: S3Config) {
    this.#bucket = bucket;
    this.#s3 = s3;
  }

  get about(): RemoteObjects['about'] {
    const { bucket: name, endpoint = null, region, prefix } = this.#s3;
    return { name, endpoint, region, prefix };
  }

  async list(prefix: string): Promise<{ readonly items: BucketObject[]; readonly complete: boolean }> {
    const items: BucketObject[] = [];
    let complete = true;
    await this.#told(() =>
      this.#bucket.list(
        prefix,
        ({ key, size, modifiedMs }) => {
          complete = items.length < objectsMax;
          const modified = new Date(modifiedMs).toISOString();
          if (complete) items.push({ key, size_bytes: Math.max(size, 0), modified_at: modified });
          return complete;
        },
        { signal: this.#end.signal, isDeep: true },
      ),
    );
    return { items: items.sort((a, b) => (a.key < b.key ? -1 : 1)), complete };
  }

  async remove(key: string): Promise<void> {
    await this.#told(() => this.#bucket.remove(key, this.#end.signal));
  }

  [Symbol.dispose](): void {
    this.#end.abort(new AppError('shutting_down', 'Cannot reach the bucket: the daemon stops'));
  }

  async #told(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (cause) {
      const text = `Cannot use the bucket "${this.#s3.bucket}": ${errorText(cause)}`;
      throw new AppError('bucket_unavailable', text, { cause });
    }
  }
}
