/**
 * The VM module: one squashfs with the VMM, its libraries and the guest's kernel, a module like any other by the name of `900-vmm`. It
 * is unpacked once, under its digest: a newer one beside running VMs changes nothing for them.
 */
import { createHash, randomBytes } from 'node:crypto';
import { type BigIntStats, existsSync, statSync } from 'node:fs';
import { chmod, mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { vmModule } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { manifestSuffix } from '@squash/contract/manifest-suffix';
import { moduleManifestSchema } from '@squash/contract/module-manifest';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { errorText } from '@squash/base/bug';
import { isErrno } from '@squash/base/errno';
import { fileDigest } from '@squash/base/file-digest';
import { bootProgram, initProgram } from '@squash/base/programs';
import type { LaunchClient } from '../../launch/launch-client.ts';
import { makeInitrd } from './initrd.ts';

const moduleFile = `modules/${vmModule}.squashfs`;
const treeName = /^[0-9a-f]{64}$/;

/** Relative to the data directory. */
export interface VmFiles {
  /** The VMM's root. */
  readonly root: string;
  readonly initrd: string;
}

export interface VmModuleOptions {
  readonly dataDir: string;
  readonly launcher: Pick<LaunchClient, 'unpack' | 'removeTree'>;
  /** Whether a VM runs, on whichever module. */
  readonly isUsed: () => boolean;
}

export class VmModule {
  readonly #options: VmModuleOptions;
  #made: { readonly print: string; readonly files: Promise<VmFiles> } | undefined;

  constructor(options: VmModuleOptions) {
    this.#options = options;
  }

  /** How the file looks now. @throws vm_unavailable where there is none */
  check(): string {
    const found = this.#look();
    if (found !== undefined) return [found.dev, found.ino, found.size, found.mtimeNs].join(':');
    throw new AppError(
      'vm_unavailable',
      `There is no module "${vmModule}" (QEMU, and a kernel for guests): "squash module build vmm" makes it`,
    );
  }

  isThere(): boolean {
    return this.#look() !== undefined;
  }

  /** Of the module as it is now. @throws vm_unavailable, layer_corrupt, disk_full */
  files(): Promise<VmFiles> {
    const print = this.check();
    if (this.#made?.print === print) return this.#made.files;
    const files = this.#make().catch((error: unknown) => {
      this.#made = undefined;
      throw error;
    });
    this.#made = { print, files };
    return files;
  }

  #look(): BigIntStats | undefined {
    return statSync(join(this.#options.dataDir, moduleFile), { bigint: true, throwIfNoEntry: false });
  }

  async #make(): Promise<VmFiles> {
    const { dataDir } = this.#options;
    await mkdir(join(dataDir, 'vm'), { recursive: true, mode: 0o700 });
    const root = await this.#unpacked();
    const modules = join(dataDir, root, 'boot', 'modules');
    const bytes = await makeInitrd({ boot: bootProgram, init: initProgram, modules });
    const initrd = `vm/initrd-${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}`;
    if (!existsSync(join(dataDir, initrd))) await writeFileAtomic(join(dataDir, initrd), bytes);
    // The VMM is not the daemon's id, and the umask may be anything.
    await chmod(join(dataDir, initrd), 0o644);
    return { root, initrd };
  }

  async #unpacked(): Promise<string> {
    const { dataDir, launcher, isUsed } = this.#options;
    const digest = await this.#verifiedDigest();
    const root = `vm/${digest}`;
    if (existsSync(join(dataDir, root))) return root;
    const others = (await readdir(join(dataDir, 'vm'))).filter((name) => treeName.test(name));
    if (!isUsed()) for (const other of others) await launcher.removeTree(`vm/${other}`);
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

  /** @throws layer_corrupt where its manifest names another digest */
  async #verifiedDigest(): Promise<string> {
    const path = join(this.#options.dataDir, moduleFile);
    const before = this.check();
    const file = await open(path, 'r');
    let digest: string;
    try {
      digest = await fileDigest(file);
    } finally {
      await file.close();
    }
    const stated = await statedDigest(`${path}${manifestSuffix}`);
    if (stated === undefined || stated === digest) return digest;
    // Who replaces a module takes its manifest away, then puts the file there, then its manifest: both may have changed between the two looks.
    if (this.check() !== before) return await this.#verifiedDigest();
    throw corrupt(
      `its digest is ${digest.slice(0, 12)}…, it should be ${stated.slice(0, 12)}…; build or import it again`,
    );
  }
}

/** undefined where there is no manifest: then the file's own digest is all there is. @throws layer_corrupt */
async function statedDigest(path: string): Promise<string | undefined> {
  try {
    return moduleManifestSchema.parse(JSON.parse(await readFile(path, 'utf8'))).squashfs_sha256;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw corrupt(`its manifest is malformed (${errorText(error)}); build or import it again`);
  }
}

function corrupt(why: string): AppError {
  return new AppError('layer_corrupt', `Cannot use module "${vmModule}": ${why}`);
}
