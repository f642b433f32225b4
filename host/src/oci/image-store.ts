/** The images that are here: one small file for each, `images/<SHA-256 of its name>.json`, beside the layers, which are modules. */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { isDiskFull } from '@squash/base/errno';
import { Failure } from '@squash/base/failure';
import type { Log } from '@squash/base/log';
import { AppError } from '@squash/contract/errors';
import { type Image, imageSchema } from '@squash/contract/image';
import { limits } from '@squash/contract/limits';

const recordBytesMax = 1_048_576;

export class ImageStore {
  readonly #directory: string;
  readonly #log: Log;
  readonly #images: Map<string, Image>;

  constructor(dataDir: string, log: Log) {
    this.#directory = join(dataDir, 'images');
    this.#log = log;
    mkdirSync(this.#directory, { recursive: true });
    this.#images = new Map(this.#read().map((image) => [image.name, image]));
  }

  /** Sorted by name. */
  all(): readonly Image[] {
    return [...this.#images.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  find(name: string): Image | undefined {
    return this.#images.get(name);
  }

  /** @throws disk_full, stream_limit */
  async keep(image: Image): Promise<void> {
    if (!this.#images.has(image.name) && this.#images.size >= limits.imagesMax)
      throw new AppError('stream_limit', `${limits.imagesMax} images are kept: remove some`);
    try {
      await writeFileAtomic(this.#path(image.name), `${JSON.stringify(image, null, 2)}\n`);
    } catch (cause) {
      if (!isDiskFull(cause)) throw cause;
      throw new AppError('disk_full', `Cannot keep image "${image.name}": the disk is full`, { cause });
    }
    this.#images.set(image.name, image);
  }

  async remove(name: string): Promise<void> {
    await rm(this.#path(name), { force: true });
    this.#images.delete(name);
  }

  #read(): readonly Image[] {
    return readdirSync(this.#directory).flatMap((file) => {
      if (!/^[0-9a-f]{64}\.json$/.test(file)) return [];
      const path = join(this.#directory, file);
      try {
        if (statSync(path).size > recordBytesMax) throw new Failure('too_large', 'it is no record of ours');
        const image = imageSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
        return this.#path(image.name) === path ? [image] : [];
      } catch (error) {
        // It can be pulled or imported again, and its layers are modules of their own.
        this.#log.warn('image.unreadable', { file, error });
        return [];
      }
    });
  }

  #path(name: string): string {
    return join(this.#directory, `${createHash('sha256').update(name).digest('hex')}.json`);
  }
}
