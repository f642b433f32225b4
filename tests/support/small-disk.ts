/** Small file systems that a test can really fill. Only root can mount them. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ownedPrefix } from './owned-directory.ts';

export const needsRoot = process.getuid?.() === 0 ? false : 'mounting a small file system needs root';

export interface SmallDisk extends Disposable {
  readonly path: string;
  /** Takes so much of it. */
  take(bytes: number): void;
  /** Takes all room that is left. */
  fill(): void;
  /** Gives it back. */
  free(): void;
}

/** In memory. */
export function smallDisk(bytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), ownedPrefix('disk')));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=755`, 'squash-test', path]);
  return mounted(path, bytes);
}

/** An ext4 in a file, with a journal and delayed allocation, as hosts have. */
export function smallExt4(bytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), ownedPrefix('disk')));
  const image = `${path}.ext4`;
  writeFileSync(image, '');
  try {
    truncateSync(image, bytes);
    execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', '-E', 'lazy_itable_init=1,root_owner=0:0', image]);
    execFileSync('mount', ['-o', 'loop', image, path]);
  } finally {
    // The loop device holds it until it is unmounted.
    rmSync(image);
  }
  return mounted(path, bytes);
}

function mounted(path: string, bytes: number): SmallDisk {
  const ballast = join(path, 'ballast');
  return {
    path,
    take: (taken) => writeFileSync(ballast, Buffer.alloc(taken, 1), { flag: 'a' }),
    fill: () => {
      for (let size = bytes; size >= 1; size = Math.floor(size / 2)) {
        try {
          writeFileSync(ballast, Buffer.alloc(size), { flag: 'a' });
        } catch {
          // Too much at once: half of it may fit.
        }
      }
    },
    free: () => rmSync(ballast, { force: true }),
    [Symbol.dispose]: () => {
      execFileSync('umount', [path]);
      rmdirSync(path);
    },
  };
}
