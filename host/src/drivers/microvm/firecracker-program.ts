/**
 * The Firecracker that the operator has named, as VMs get it: a copy of its own below the data directory, by its digest. What the file becomes
 * later changes nothing for a start that has begun, and the digest is what `squash doctor` shows.
 */
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, existsSync, openSync, readFileSync, statSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { errorText } from '@squash/base/bug';
import { isDiskFull, isErrno } from '@squash/base/errno';

/** A release has 3 to 4 MB; one with all that debugging needs some 80. */
const programBytesMax = 256 * 1_048_576;
const treePrefix = 'firecracker-';
/** In each release: its name, the paths of its sources, a word of its API. */
const ownWords = ['Firecracker', 'firecracker', 'InstanceStart'];

export class FirecrackerProgram {
  readonly #dataDir: string;
  readonly #path: string | undefined;
  #known: { readonly print: string; readonly digest: string; readonly isLikely: boolean } | undefined;
  #made: { readonly tree: string; readonly done: Promise<void> } | undefined;

  /** @param path what SQUASH_FIRECRACKER says */
  constructor(dataDir: string, path: string | undefined) {
    this.#dataDir = dataDir;
    this.#path = path;
  }

  /** Its path. @throws vm_unavailable */
  check(): string {
    if (this.#path === undefined) throw unavailable('it is not set');
    try {
      // The daemon is held to its files, which asking for access does not see.
      closeSync(openSync(this.#path, 'r'));
      const status = statSync(this.#path);
      if (status.isFile() && status.size <= programBytesMax) return this.#path;
    } catch (error) {
      throw unavailable(errorText(error));
    }
    throw unavailable(`"${this.#path}" is no program`);
  }

  /**
   * Of the file as it is, and whether it is one as far as can be seen without running it: only in a VMM's sandbox is it run, where
   * it says its version. @throws vm_unavailable
   */
  about(): { readonly digest: string; readonly isLikely: boolean } {
    const path = this.check();
    const { dev, ino, size, mtimeNs } = statSync(path, { bigint: true });
    const print = [dev, ino, size, mtimeNs].join(':');
    if (this.#known?.print === print) return this.#known;
    const bytes = readFileSync(path);
    this.#known = { print, digest: sha256(bytes), isLikely: isLikely(bytes) };
    return this.#known;
  }

  /** With the program as `/usr/bin/firecracker`; relative to the data directory. @throws vm_unavailable, disk_full */
  async tree(): Promise<string> {
    const path = this.check();
    const bytes = await readFile(path);
    if (!isLikely(bytes)) throw unavailable(`"${path}" is no Firecracker`);
    const tree = `vm/${treePrefix}${sha256(bytes).slice(0, 32)}`;
    if (this.#made?.tree !== tree) this.#made = { tree, done: this.#make(bytes, join(this.#dataDir, tree)) };
    const made = this.#made;
    await made.done.catch((error: unknown) => {
      if (this.#made === made) this.#made = undefined;
      throw error;
    });
    return tree;
  }

  async #make(bytes: Buffer, target: string): Promise<void> {
    if (existsSync(target)) return;
    const dir = dirname(target);
    const scratch = `${target}.${randomBytes(6).toString('hex')}`;
    await mkdir(dir, { recursive: true, mode: 0o700 });
    // Whoever runs an older one has it open.
    for (const name of await readdir(dir)) {
      if (name.startsWith(treePrefix)) await rm(join(dir, name), { recursive: true, force: true });
    }
    try {
      const program = join(scratch, 'usr', 'bin', 'firecracker');
      await mkdir(dirname(program), { recursive: true });
      await writeFileAtomic(program, bytes);
      // The VMM is not the daemon's id, and the umask may be anything.
      for (const path of [scratch, join(scratch, 'usr'), dirname(program), program]) await chmod(path, 0o755);
      await rename(scratch, target);
    } catch (error) {
      await rm(scratch, { recursive: true, force: true });
      if (isDiskFull(error))
        throw new AppError('disk_full', 'No room on the disk for a copy of Firecracker', { cause: error });
      if (!isErrno(error, 'EEXIST', 'ENOTEMPTY')) throw error;
    }
  }
}

/** Of a configuration; undefined: QEMU is the VMM. */
export function firecrackerOf(config: {
  readonly dataDir: string;
  readonly firecracker: { readonly path: string | undefined } | undefined;
}): FirecrackerProgram | undefined {
  const { dataDir, firecracker } = config;
  return firecracker === undefined ? undefined : new FirecrackerProgram(dataDir, firecracker.path);
}

function isLikely(bytes: Buffer): boolean {
  return ownWords.some((word) => bytes.includes(word));
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function unavailable(why: string): AppError {
  return new AppError(
    'vm_unavailable',
    `SQUASH_FIRECRACKER names no program for microVMs (${why}): get a release of Firecracker, 1.16.1 or newer, check its sum and name it there, or unset it and let SQUASH_BACKEND be "vm" for QEMU`,
  );
}
