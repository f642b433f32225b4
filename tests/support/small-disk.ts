/** A file system of a few hundred KiB that a test can really fill. Only root can mount it. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ownedPrefix } from './owned-directory.ts';

export const needsRoot = process.getuid?.() === 0 ? false : 'mounting a small file system needs root';

export interface SmallDisk extends Disposable {
  readonly path: string;
  /** Takes all room that is left. */
  fill(): void;
  /** Gives it back. */
  free(): void;
}

export function smallDisk(bytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), ownedPrefix('disk')));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=755`, 'squash-test', path]);
  const ballast = join(path, 'ballast');
  return {
    path,
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
