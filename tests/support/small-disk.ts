/** File systems of their own that a test can really fill. Only root can mount them. */
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  rmdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ownedPrefix } from './owned-directory.ts';

export const needsRoot = process.getuid?.() === 0 ? false : 'mounting a small file system needs root';

/** False where this kernel has them. */
export function needsProjectQuota(): string | false {
  try {
    using _disk = smallExt4(16 * 1_048_576, { hasProjectQuota: true });
    return false;
  } catch {
    return 'this kernel has no project quotas';
  }
}

export interface SmallDisk extends Disposable {
  readonly path: string;
  /** Takes so much of it. */
  take(bytes: number): void;
  /** Takes all room that is left. */
  fill(): void;
  /** Gives it back. */
  free(): void;
}

/** In memory: some hundred KiB are made in no time. */
export function smallDisk(bytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), ownedPrefix('disk')));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=755`, 'squash-test', path]);
  return mounted(path, bytes, () => rmdirSync(path));
}

/** An ext4 in a file, as on a machine's disk: with its journal and the blocks that it keeps for root. */
export function smallExt4(bytes: number, { hasProjectQuota = false } = {}): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), ownedPrefix('disk')));
  const image = `${path}.ext4`;
  writeFileSync(image, '');
  truncateSync(image, bytes);
  execFileSync('mkfs.ext4', ['-q', ...(hasProjectQuota ? ['-O', 'quota,project'] : []), image]);
  try {
    execFileSync('mount', ['-o', hasProjectQuota ? 'loop,prjquota' : 'loop', image, path], { stdio: 'pipe' });
  } catch (error) {
    rmdirSync(path);
    rmSync(image);
    throw error;
  }
  rmdirSync(join(path, 'lost+found'));
  return mounted(path, bytes, () => {
    rmdirSync(path);
    rmSync(image);
  });
}

function mounted(path: string, bytes: number, remove: () => void): SmallDisk {
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
      // Blocks that are not yet allocated could still be had.
      const file = openSync(ballast, 'r');
      fsyncSync(file);
      closeSync(file);
    },
    free: () => rmSync(ballast, { force: true }),
    [Symbol.dispose]: () => {
      execFileSync('umount', [path]);
      remove();
    },
  };
}
