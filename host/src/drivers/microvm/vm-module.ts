/**
 * The VM module: one squashfs with the VMM, its libraries and the guest's kernel, in `vm/module.squashfs` of the data directory. It is
 * unpacked once, under its digest: a newer one beside running VMs changes nothing for them.
 */
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { isErrno } from '@squash/base/errno';
import { fileDigest } from '@squash/base/file-digest';
import { bootProgram, initProgram } from '@squash/base/programs';
import type { LaunchClient } from '../../launch/launch-client.ts';
import { makeInitrd } from './initrd.ts';

const moduleFile = 'vm/module.squashfs';

/** Relative to the data directory. */
export interface VmFiles {
  /** The VMM's root. */
  readonly root: string;
  readonly initrd: string;
}

export interface VmModuleOptions {
  readonly dataDir: string;
  readonly launcher: Pick<LaunchClient, 'unpack' | 'removeTree'>;
}

export class VmModule {
  readonly #options: VmModuleOptions;
  #files: Promise<VmFiles> | undefined;

  constructor(options: VmModuleOptions) {
    this.#options = options;
  }

  /** @throws vm_unavailable where there is none */
  check(): void {
    if (this.#files !== undefined || existsSync(join(this.#options.dataDir, moduleFile))) return;
    throw new AppError(
      'vm_unavailable',
      'There is no VM module (QEMU and a kernel for guests): "squash vm build" makes one',
    );
  }

  /** Of the module that was there when the daemon's first VM was made. @throws vm_unavailable, layer_corrupt, disk_full */
  files(): Promise<VmFiles> {
    this.#files ??= this.#make().catch((error: unknown) => {
      this.#files = undefined;
      throw error;
    });
    return this.#files;
  }

  async #make(): Promise<VmFiles> {
    const { dataDir } = this.#options;
    this.check();
    const root = await this.#unpacked();
    const modules = join(dataDir, root, 'boot', 'modules');
    const names = (await readdir(modules)).filter((name) => name.endsWith('.ko')).sort();
    const bytes = makeInitrd({
      boot: await readFile(bootProgram),
      init: await readFile(initProgram),
      modules: await Promise.all(
        names.map(async (name) => ({ name, bytes: await readFile(join(modules, name)) })),
      ),
    });
    const initrd = `vm/initrd-${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}`;
    if (!existsSync(join(dataDir, initrd))) await writeFileAtomic(join(dataDir, initrd), bytes);
    return { root, initrd };
  }

  async #unpacked(): Promise<string> {
    const { dataDir, launcher } = this.#options;
    const file = await open(join(dataDir, moduleFile), 'r');
    let digest: string;
    try {
      digest = await fileDigest(file);
    } finally {
      await file.close();
    }
    const root = `vm/${digest}`;
    if (existsSync(join(dataDir, root))) return root;
    await mkdir(join(dataDir, 'tmp'), { recursive: true });
    const target = join('tmp', `vm-${randomBytes(6).toString('hex')}`);
    try {
      const { layerBytesMax: bytesMax, layerInodesMax: inodesMax } = limits;
      await launcher.unpack({ path: moduleFile, target, bytesMax, inodesMax });
      await rename(join(dataDir, target), join(dataDir, root));
    } catch (error) {
      await launcher.removeTree(target).catch(() => undefined);
      if (!isErrno(error, 'EEXIST', 'ENOTEMPTY')) throw error;
    }
    return root;
  }
}
