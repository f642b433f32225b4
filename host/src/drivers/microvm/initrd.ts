/**
 * The initramfs of a microVM: `squash-boot` as its first program, `squash-init`, and the kernel's modules. The daemon makes it
 * rather than whoever built the VM module, so that the guest speaks this release's frames.
 *
 * The same files give the same bytes: it can be named by its digest and kept.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { directoryEntry, fileEntry, writeCpio } from './cpio.ts';

export interface InitrdParts {
  /** Paths of the built programs. */
  readonly boot: string;
  readonly init: string;
  /** A directory of nothing but `NN-name.ko`, uncompressed, in the order in which they are loaded. */
  readonly modules: string;
}

const moduleName = /^[0-9]{2}-[A-Za-z0-9_-]+\.ko$/;

/** @throws launch_failed where the directory of modules holds something else */
export async function makeInitrd(parts: InitrdParts): Promise<Buffer> {
  const modules = (await readdir(parts.modules)).sort();
  const stranger = modules.find((name) => !moduleName.test(name));
  if (modules.length === 0 || stranger !== undefined) {
    throw new AppError(
      'launch_failed',
      `The kernel modules of the VM module can't be used: ${stranger === undefined ? 'there are none' : `${JSON.stringify(stranger)} is none`}. Build the VM module anew.`,
    );
  }
  return writeCpio([
    fileEntry('init', await readFile(parts.boot), 0o755),
    fileEntry('squash-init', await readFile(parts.init), 0o755),
    directoryEntry('modules'),
    ...(await Promise.all(
      modules.map(async (name) => fileEntry(`modules/${name}`, await readFile(join(parts.modules, name)))),
    )),
  ]);
}
