/** An object of the bucket as a file in `tmp/`, checked against all that is stated of it, and fetched once more where it differs. */
import { randomBytes } from 'node:crypto';
import { open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { isDiskFull } from '@squash/base/errno';
import { pause } from '@squash/base/pause';
import { AppError } from '@squash/contract/errors';
import type { Bucket } from './bucket.ts';

const againMs = 1_000;

export interface Fetching<Facts> {
  readonly bucket: Bucket;
  readonly tmp: string;
  readonly key: string;
  /** In messages: `module "x"`. */
  readonly what: string;
  readonly signal: AbortSignal;
  /** What is stated of it elsewhere: read behind the file, so that both are of one time. */
  readonly facts: () => Promise<{ readonly sha256: string | undefined; readonly facts: Facts }>;
}

/** False: there is no such object. The file is gone when `use` has ended, unless that has moved it. */
export async function fetchFile<Facts>(
  fetching: Fetching<Facts>,
  use: (path: string, facts: Facts) => Promise<void>,
): Promise<boolean> {
  const { tmp, what, signal } = fetching;
  const path = join(tmp, `s3-${randomBytes(8).toString('hex')}.squashfs`);
  try {
    for (let isLast = false; ; isLast = true) {
      const digest = await download(fetching, path);
      if (digest === undefined) return false;
      const about = await fetching.facts();
      const stated = [digest.stated, about.sha256].filter((each) => each !== undefined);
      if (stated.every((each) => each === digest.actual)) {
        await use(path, about.facts);
        return true;
      }
      // Once more: a byte may have been turned on the way, or somebody replaced it between the two.
      if (isLast)
        throw corrupt(what, `it is ${digest.actual.slice(0, 12)}…, and should be ${stated.join(', ')}`);
      await rm(path, { force: true });
      await pause(againMs, signal);
    }
  } catch (error) {
    throw isDiskFull(error) ? noRoom(what) : error;
  } finally {
    await rm(path, { force: true });
  }
}

async function download(
  { bucket, tmp, key, what, signal }: Fetching<unknown>,
  path: string,
): Promise<{ readonly actual: string; readonly stated: string | undefined } | undefined> {
  const file = await open(path, 'wx', 0o600);
  try {
    const checkSize = async (bytes: number): Promise<void> => {
      const { bavail, bsize } = await statfs(tmp);
      // The file, and the copy of it that is checked and kept, or what is unpacked from it.
      if (bavail * bsize < 2 * bytes) throw noRoom(what);
    };
    const read = await bucket.read(key, file, { signal, checkSize });
    return read === undefined ? undefined : { actual: read.digest, stated: read.facts.sha256 };
  } finally {
    await file.close();
  }
}

export function corrupt(what: string, why: string): AppError {
  return new AppError('layer_corrupt', `Cannot use ${what} of the bucket: ${why}`);
}

function noRoom(what: string): AppError {
  return new AppError(
    'disk_full',
    `Cannot get ${what} from the bucket: the data directory has no room for it`,
  );
}
