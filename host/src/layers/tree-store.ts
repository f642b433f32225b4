/**
 * `layers/<digest>`: unpacked trees, each made once and shared by every sandbox that stacks it.
 *
 * A tree is unpacked under `tmp/` and appears by one rename, so a directory in `layers/` is always whole; what a
 * crash leaves lies in `tmp/` and goes at the next start. Trees belong to the sandboxes' ids and hold whatever
 * an image's author wanted: they are made and removed by `squash-launch`, and Node looks into them by `base/src/open-below.ts` alone.
 */
import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { type LayerDigest, layerDigestSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { syncDirectory } from '@squash/base/atomic-file';
import { isErrno } from '@squash/base/errno';
import type { Sweep } from './layer-store.ts';
import { treeBytes } from './tree-bytes.ts';

/** The part of `LaunchClient` that makes and removes trees. Paths are relative to the data directory. */
export interface ImageTool {
  /**
   * Makes the directory `target` from the squashfs file `path`. Where `giveUp` is aborted it rejects once nothing of it
   * goes on. @throws layer_corrupt, disk_full, launcher_unavailable
   */
  unpack(
    image: {
      readonly path: string;
      readonly target: string;
      readonly bytesMax: number;
      readonly inodesMax: number;
    },
    giveUp: AbortSignal,
  ): Promise<void>;
  removeTree(path: string): Promise<void>;
}

/** What a tree is made from, and who wants it. */
interface TreeSource {
  /** Relative to the data directory. */
  readonly image: string;
  /** Asked after unpacking: is the file still the one with the digest? */
  readonly isSameImage: () => Promise<boolean>;
  /** Aborted: whoever asked does not want it any more. */
  readonly giveUp?: AbortSignal | undefined;
}

interface Making {
  readonly done: Promise<void>;
  readonly stop: AbortController;
  /** How many want it: who comes to the same unpacking does not lose it because the first one gives up. */
  wanted: number;
}

export class TreeStore {
  readonly #dataDir: string;
  readonly #tool: ImageTool;
  readonly #making = new Map<LayerDigest, Making>();

  constructor(dataDir: string, tool: ImageTool) {
    this.#dataDir = dataDir;
    this.#tool = tool;
  }

  /** At once: each create asks, and another thread would take ten times as long as the look. */
  has(digest: LayerDigest): boolean {
    return statSync(this.#path(digest), { throwIfNoEntry: false })?.isDirectory() === true;
  }

  /** The tree of the image with this digest; whoever asks meanwhile waits for the same unpacking. */
  async make(digest: LayerDigest, source: TreeSource): Promise<void> {
    const making = this.#making.get(digest);
    if (making?.stop.signal.aborted === true) {
      await making.done.catch(() => undefined);
      return await this.make(digest, source);
    }
    await this.#want(making ?? this.#begin(digest, source), source.giveUp);
  }

  async #want(making: Making, giveUp: AbortSignal | undefined): Promise<void> {
    const leave = (): void => {
      making.wanted -= 1;
      if (making.wanted === 0) making.stop.abort();
    };
    making.wanted += 1;
    giveUp?.addEventListener('abort', leave, { once: true });
    if (giveUp?.aborted === true) leave();
    try {
      await making.done;
    } finally {
      giveUp?.removeEventListener('abort', leave);
    }
  }

  #begin(digest: LayerDigest, source: TreeSource): Making {
    const stop = new AbortController();
    const done = this.#unpack(digest, source, stop.signal).finally(() => this.#making.delete(digest));
    const making = { done, stop, wanted: 0 };
    this.#making.set(digest, making);
    return making;
  }

  async #unpack(digest: LayerDigest, { image, isSameImage }: TreeSource, giveUp: AbortSignal): Promise<void> {
    const target = join('tmp', `layer-${digest.slice(0, 12)}-${randomBytes(6).toString('hex')}`);
    try {
      const { layerBytesMax: bytesMax, layerInodesMax: inodesMax } = limits;
      await this.#tool.unpack({ path: image, target, bytesMax, inodesMax }, giveUp);
      if (!(await isSameImage())) {
        throw new AppError('layer_corrupt', `Cannot use "${image}": it was replaced while it was unpacked`);
      }
      await rename(join(this.#dataDir, target), this.#path(digest));
    } catch (error) {
      await this.#discard(target);
      // Another daemon's work can't be there (the lock), but an operator's may: it has the same content.
      if (isErrno(error, 'EEXIST', 'ENOTEMPTY') && this.has(digest)) return;
      throw error;
    }
    await syncDirectory(join(this.#dataDir, 'layers'));
  }

  async #discard(path: string): Promise<void> {
    try {
      await this.#tool.removeTree(path);
    } catch {
      // It stays under `tmp/`, which is emptied at the next start; the reason that matters is already on its way.
    }
  }

  /** Removes the trees that are not in `keep` and not being made. Returns how many. */
  async collect(keep: ReadonlySet<LayerDigest>): Promise<number> {
    const { unkept } = await this.#list(keep);
    for (const digest of unkept) await this.remove(digest);
    return unkept.length;
  }

  async measureSweep(keep: ReadonlySet<LayerDigest>): Promise<Sweep> {
    const { all, unkept } = await this.#list(keep);
    const bytes = await this.#bytes(unkept.map((digest) => join('layers', digest)));
    return { isDry: true, trees: all, swept: unkept.length, bytes };
  }

  async sweep(keep: ReadonlySet<LayerDigest>): Promise<() => Promise<Sweep>> {
    const { all, unkept } = await this.#list(keep);
    const moved = await Promise.all(unkept.map((digest) => this.#toTrash(digest)));
    const trash = moved.filter((path) => path !== undefined);
    return async () => {
      const bytes = await this.#bytes(trash);
      for (const path of trash) await this.#tool.removeTree(path);
      return { isDry: false, trees: all, swept: trash.length, bytes };
    };
  }

  /** Gone for everybody at once; the space comes back when the launcher is done. Idempotent. */
  async remove(digest: LayerDigest): Promise<void> {
    const trash = await this.#toTrash(digest);
    if (trash !== undefined) await this.#discard(trash);
  }

  /** Its path there; undefined where there is no such tree. */
  async #toTrash(digest: LayerDigest): Promise<string | undefined> {
    const trash = join('trash', `layer-${digest.slice(0, 12)}-${randomBytes(6).toString('hex')}`);
    try {
      await rename(this.#path(digest), join(this.#dataDir, trash));
      return trash;
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return undefined;
      throw error;
    }
  }

  async #list(
    keep: ReadonlySet<LayerDigest>,
  ): Promise<{ readonly all: number; readonly unkept: readonly LayerDigest[] }> {
    const names = await readdir(join(this.#dataDir, 'layers'));
    const all = names.flatMap((name) => layerDigestSchema.safeParse(name).data ?? []);
    const unkept = all.filter((digest) => !keep.has(digest) && !this.#making.has(digest));
    return { all: all.length, unkept };
  }

  async #bytes(paths: readonly string[]): Promise<number> {
    let bytes = 0;
    for (const path of paths) bytes += await treeBytes(join(this.#dataDir, path));
    return bytes;
  }

  #path(digest: LayerDigest): string {
    return join(this.#dataDir, 'layers', digest);
  }
}
