/**
 * Squashfs files that an attacker might offer as a layer. Each is made by `mksquashfs`, and where that would not
 * write what an attacker would, the bytes are changed afterwards: metadata is left uncompressed for that.
 */
import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, open, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface ImageMaker {
  readonly folder: string;
  readonly program: string;
  readonly secretFolder: string;
}

async function pack(maker: ImageMaker, name: string, extra: readonly string[] = []): Promise<string> {
  const file = join(maker.folder, `${name}.squashfs`);
  const options = ['-noappend', '-no-progress', '-quiet', '-all-root'];
  await run('mksquashfs', [join(maker.folder, name), file, ...options, ...extra]);
  return file;
}

async function tree(maker: ImageMaker, name: string): Promise<string> {
  const root = join(maker.folder, name);
  await rm(root, { recursive: true, force: true });
  await mkdir(root);
  return root;
}

/** Nodes for the disk, memory and the terminal: opening one would be a way around every path. */
export async function withDevices(maker: ImageMaker): Promise<string> {
  await tree(maker, 'devices');
  const nodes = ['mem c 666 0 0 1 1', 'disk b 666 0 0 254 0', 'loop b 666 0 0 7 0', 'fuse c 666 0 0 10 229'];
  return pack(
    maker,
    'devices',
    nodes.flatMap((node) => ['-p', `hostile-${node}`]),
  );
}

/** A set-id program of root and one with a file capability. */
export async function withSetUserId(maker: ImageMaker): Promise<string> {
  const root = await tree(maker, 'setid');
  await copyFile(maker.program, join(root, 'hostile-suid'));
  await chmod(join(root, 'hostile-suid'), 0o6755);
  return pack(maker, 'setid');
}

/** Links to the host at places where a careless unpacker writes the next file. */
export async function withLinks(maker: ImageMaker): Promise<string> {
  const root = await tree(maker, 'links');
  await symlink(maker.secretFolder, join(root, 'hostile-absolute'));
  await symlink(`../../../../../../../..${maker.secretFolder}`, join(root, 'hostile-relative'));
  await symlink('/proc/1/root', join(root, 'hostile-proc'));
  return pack(maker, 'links');
}

/** A name in the directory table becomes `../…`: what would be written beside the unpacked tree. */
export async function withTraversal(maker: ImageMaker): Promise<string> {
  const root = await tree(maker, 'traversal');
  await writeFile(join(root, 'AAAAAAAAAAAAAAAA'), 'escaped\n');
  const file = await pack(maker, 'traversal', ['-noI', '-noD', '-noF', '-noX']);
  const bytes = await readFile(file);
  const at = bytes.indexOf('AAAAAAAAAAAAAAAA');
  if (at < 0) throw new Error('the name is not in the image');
  bytes.write('../../../escaped', at);
  await writeFile(file, bytes);
  return file;
}

/** Two entries of one name: first a link out, then a file through it (CVE-2021-41072). */
export async function withDuplicate(maker: ImageMaker): Promise<string> {
  const root = await tree(maker, 'duplicate');
  await symlink(maker.secretFolder, join(root, 'hostileA'));
  await mkdir(join(root, 'hostileB'));
  await writeFile(join(root, 'hostileB/secret'), 'overwritten\n');
  const file = await pack(maker, 'duplicate', ['-noI', '-noD', '-noF', '-noX']);
  const bytes = await readFile(file);
  const at = bytes.lastIndexOf('hostileB');
  if (at < 0) throw new Error('the name is not in the image');
  bytes.write('hostileA', at);
  await writeFile(file, bytes);
  return file;
}

/** A few kilobytes that unpack to far more than a disk limit. Zeros are packed whole, not as holes. */
export async function withBomb(maker: ImageMaker, mebibytes: number): Promise<string> {
  const root = await tree(maker, 'bomb');
  await writeFile(join(root, 'hostile-bomb'), '');
  await truncate(join(root, 'hostile-bomb'), mebibytes * 1024 * 1024);
  return pack(maker, 'bomb', ['-no-sparse']);
}

/** Attributes by which overlayfs takes a directory's content from elsewhere, as a lower layer has them. */
export async function withRedirect(maker: ImageMaker): Promise<string> {
  const root = await tree(maker, 'redirect');
  await mkdir(join(root, 'hostile-redirect'));
  await writeFile(join(root, 'hostile-metacopy'), 'x'.repeat(100));
  const set = (path: string, name: string, value: string): Promise<unknown> =>
    run('setfattr', ['-n', `user.overlay.${name}`, '-v', value, join(root, path)]);
  await set('hostile-redirect', 'redirect', '/../../../../../../etc');
  await set('hostile-metacopy', 'metacopy', '');
  await set('hostile-metacopy', 'redirect', '/../../../../../../etc/passwd');
  return pack(maker, 'redirect', ['-xattrs']);
}

/** A good image with bytes changed at places that `seed` chooses; half of them in the superblock and tables. */
export async function corrupted(maker: ImageMaker, seed: number): Promise<string> {
  const source = await withSetUserId(maker);
  const file = join(maker.folder, `corrupted-${String(seed)}.squashfs`);
  await copyFile(source, file);
  const handle = await open(file, 'r+');
  const { size } = await handle.stat();
  let state = seed;
  const next = (below: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state % below;
  };
  for (let change = 0; change < 12; change++) {
    const isTable = change % 2 === 0;
    const at = isTable ? size - 1 - next(Math.min(size, 600)) : next(Math.min(size, 96));
    // The magic stays: without it the file is refused at once.
    await handle.write(Buffer.from([next(256)]), 0, 1, Math.max(at, 4));
  }
  await handle.close();
  return file;
}

/** The same image cut off in the middle. */
export async function cutOff(maker: ImageMaker): Promise<string> {
  const source = await withSetUserId(maker);
  const file = join(maker.folder, 'cut.squashfs');
  const bytes = await readFile(source);
  await writeFile(file, bytes.subarray(0, Math.floor(bytes.length / 2)));
  return file;
}
