/**
 * The read-only disks of microVMs: a squashfs of each layer's tree, made once and shared by every VM that stacks it.
 *
 * They are packed from the trees in `layers/` and not the modules' own files: what a tree shows is what sandboxes of the other backend
 * see, and a module's file may have been replaced. A VM holds few disks, so what lies deepest in a high stack is one disk together.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, stat, truncate } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { LayerDigest } from '@squash/contract/ids';
import type { DiskSweep } from '../driver.ts';
import type { LaunchClient } from '../../launch/launch-client.ts';

const suffix = '.squashfs';

/**
 * A disk is as large as this, and its rest a hole: the memory of a VM knows its disks' sizes, so that VMs of one template have disks of
 * the same size.
 */
function wholeBytes(bytes: number): number {
  let whole = 1_073_741_824;
  while (whole < bytes) whole *= 2;
  return whole;
}

const digestOf = (path: string): LayerDigest => basename(path, suffix) as LayerDigest;

export interface LayerImagesOptions {
  readonly dataDir: string;
  readonly launcher: Pick<LaunchClient, 'merge' | 'removeTree'>;
  readonly bytesMax: number;
  /** How many a machine takes. */
  readonly disksMax: number;
}

export class LayerImages {
  readonly #options: LayerImagesOptions;
  readonly #making = new Map<string, Promise<void>>();
  readonly #several = new Set<string>();
  #swept: Promise<void> | undefined;

  constructor(options: LayerImagesOptions) {
    this.#options = options;
  }

  /** Of these layers, topmost first: files relative to the data directory. @throws disk_full, launch_failed */
  async of(lowers: readonly LayerDigest[]): Promise<readonly string[]> {
    this.#swept ??= this.#sweep();
    await this.#swept;
    const { disksMax } = this.#options;
    const single = lowers.length <= disksMax ? lowers : lowers.slice(0, disksMax - 1);
    const deep = lowers.slice(single.length);
    const stacks = [...single.map((digest) => [digest]), ...(deep.length === 0 ? [] : [deep])];
    return await Promise.all(stacks.map((stack) => this.#image(stack)));
  }

  /** Which of them no VM stands on, and removes them unless that is only asked. Those of several layers stay until the next start. */
  async unused(keep: ReadonlySet<LayerDigest>, isDry: boolean): Promise<DiskSweep> {
    const { dataDir, launcher } = this.#options;
    const names = await readdir(join(dataDir, 'vm', 'layers')).catch(() => []);
    const isKept = (path: string): boolean =>
      this.#several.has(path) || this.#making.has(path) || keep.has(digestOf(path));
    const unkept = names.map((name) => `vm/layers/${name}`).filter((path) => !isKept(path));
    let bytes = 0;
    for (const path of unkept) {
      bytes += (await stat(join(dataDir, path))).blocks * 512;
      if (!isDry) await launcher.removeTree(path);
    }
    return { all: names.length, swept: unkept.length, bytes };
  }

  /** Removes the disks of layers that are gone, and those of several: nobody knows which. VMs that run keep theirs. */
  async #sweep(): Promise<void> {
    const { dataDir, launcher } = this.#options;
    const names = await readdir(join(dataDir, 'vm', 'layers')).catch(() => []);
    for (const name of names) {
      if (existsSync(join(dataDir, 'layers', digestOf(name)))) continue;
      await launcher.removeTree(`vm/layers/${name}`);
    }
  }

  async #image(stack: readonly LayerDigest[]): Promise<string> {
    const [first] = stack;
    const name =
      first !== undefined && stack.length === 1
        ? first
        : createHash('sha256').update(stack.join('\n')).digest('hex');
    const path = `vm/layers/${name}${suffix}`;
    if (stack.length > 1) this.#several.add(path);
    let making = this.#making.get(path);
    if (making === undefined) {
      making = this.#make(path, stack).finally(() => this.#making.delete(path));
      this.#making.set(path, making);
    }
    await making;
    return path;
  }

  async #make(path: string, stack: readonly LayerDigest[]): Promise<void> {
    const { dataDir, launcher, bytesMax } = this.#options;
    const file = join(dataDir, path);
    if (!existsSync(file)) {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      await launcher.merge({ lowers: stack.map((digest) => `layers/${digest}`), path, bytesMax });
    }
    const { size } = await stat(file);
    if (size < wholeBytes(size)) await truncate(file, wholeBytes(size));
    // The VMM is not the daemon's id, and the umask may be anything.
    await chmod(file, 0o644);
  }
}
