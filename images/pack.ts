/** Makes the squashfs file of a layer: zstd in 128 KiB blocks, the same bytes for the same input. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, openSync, closeSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { Failure } from '@squash/base/failure';

/** Level 9 packs the base in a sixth of the time of the default (15) and is 7 % larger. */
const compression = [
  '-comp',
  'zstd',
  '-Xcompression-level',
  '9',
  '-b',
  '131072',
  '-no-progress',
  '-noappend',
];

/**
 * Owners, modes and extended attributes are the archive's; the root directory, which mksquashfs never takes from
 * an archive, is root's because mksquashfs is told that it runs as root. @throws with what mksquashfs said
 */
export async function packTar(tar: string, squashfs: string, mtimeS: number): Promise<void> {
  const input = openSync(tar, 'r');
  try {
    await mksquashfs(['-', squashfs, '-tar', '-root-mode', '755', ...compression], { input, mtimeS });
  } finally {
    closeSync(input);
  }
}

/**
 * Packs a directory as it stands, with its files' own times; `asRoot` gives everything to root, which is what a user's files
 * need. The time of packing is in no byte: the same directory gives the same file.
 */
export async function packDirectory(
  directory: string,
  squashfs: string,
  options: { readonly asRoot: boolean },
): Promise<void> {
  const owners = options.asRoot ? ['-all-root'] : [];
  await mksquashfs([directory, squashfs, ...owners, '-mkfs-time', '0', ...compression], { input: 'ignore' });
}

function mksquashfs(
  args: readonly string[],
  run: { readonly input: number | 'ignore'; readonly mtimeS?: number },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const isRoot = process.getuid?.() === 0;
    const program = isRoot ? ['mksquashfs'] : ['unshare', '--map-root-user', '--', 'mksquashfs'];
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', ...program, ...args], {
      stdio: [run.input, 'ignore', 'pipe'],
      // It takes no time of its own beside this one.
      env: { ...process.env, SOURCE_DATE_EPOCH: run.mtimeS === undefined ? undefined : String(run.mtimeS) },
    });
    let complaint = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      complaint = (complaint + text).slice(-4000);
    });
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve();
      else reject(new Failure('mksquashfs_failed', `mksquashfs failed: ${complaint.trim()}`));
    });
  });
}

export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}
