/**
 * A directory of this machine, as a tar to a sandbox and back.
 *
 * What comes out of a sandbox is written as if by an enemy: into a directory that is new, through no symlink (they are made last),
 * without owners and set-id bits. The directory has its name when all of it is there.
 */
import type { PathLike } from 'node:fs';
import { SquashError } from './errors.ts';
import { noFiles, partialName } from './local-file.ts';
import { nodeParts, type NodeParts } from './node-parts.ts';
import { readTar, type TarEntry } from './tar-reader.ts';
import { tarEnd, tarHeader, tarPadding, type WrittenEntry } from './tar-writer.ts';

/** Files, directories and symlinks; what else stands there has no sense in another place. */
export async function* uploadTree(local: string): AsyncGenerator<Uint8Array, void, void> {
  const node = nodeParts() ?? noFiles();
  yield* packBelow(node, local, '');
  yield tarEnd();
}

async function* packBelow(
  node: NodeParts,
  root: string,
  below: string,
): AsyncGenerator<Uint8Array, void, void> {
  const { fs, path } = node;
  const names = (await fs.promises.readdir(path.join(root, below))).sort();
  for (const each of names) {
    const name = below === '' ? each : `${below}/${each}`;
    const place = path.join(root, name);
    const facts = await fs.promises.lstat(place);
    const common = { name, mode: facts.mode, mtimeMs: Math.floor(facts.mtimeMs / 1000) * 1000 };
    if (facts.isSymbolicLink()) {
      const target = await fs.promises.readlink(place);
      yield tarHeader({ ...common, type: 'symlink', size: 0, target });
    } else if (facts.isDirectory()) {
      yield tarHeader({ ...common, type: 'directory', size: 0, target: '' });
      yield* packBelow(node, root, name);
    } else if (facts.isFile()) {
      yield* packFile(node, place, { ...common, type: 'file', size: facts.size, target: '' });
    }
  }
}

const partBytes = 65_536;

/** As many bytes as its header says, whatever becomes of the file meanwhile. */
async function* packFile(
  { fs }: NodeParts,
  place: PathLike,
  entry: WrittenEntry & { readonly name: string },
): AsyncGenerator<Uint8Array, void, void> {
  const handle = await fs.promises.open(place, 'r');
  try {
    yield tarHeader(entry);
    for (let left = entry.size; left > 0; ) {
      const { buffer, bytesRead } = await handle.read(new Uint8Array(Math.min(left, partBytes)));
      if (bytesRead === 0)
        throw new SquashError({
          code: 'file_changed',
          message: `"${entry.name}" became shorter while it was read`,
        });
      left -= bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
    yield tarPadding(entry.size);
  } finally {
    await handle.close();
  }
}

/** Returns how many entries there were. @throws SquashError `file_exists`, ProtocolError where what comes is no tar */
export async function downloadTree(tar: AsyncIterable<Uint8Array>, local: string): Promise<number> {
  const { fs } = nodeParts() ?? noFiles();
  if (fs.existsSync(local)) throw exists(local);
  const partial = partialName(local);
  try {
    const entries = await unpackTree(tar, partial);
    // Never over anything but an empty directory, whoever made one meanwhile.
    await fs.promises.rename(partial, local);
    return entries;
  } catch (error) {
    await fs.promises.rm(partial, { recursive: true, force: true });
    throw error;
  }
}

function exists(path: string): SquashError {
  return new SquashError({ code: 'file_exists', message: `"${path}" exists` });
}

interface Unpacking {
  readonly fs: NodeParts['fs'];
  /** Directories that are made, by their path below the target. */
  readonly made: Set<string>;
  /** What would be in the way before the end: symlinks, and modes and times of directories. */
  readonly later: (() => Promise<void>)[];
}

/** Into a directory that is made for it. */
async function unpackTree(tar: AsyncIterable<Uint8Array>, target: string): Promise<number> {
  const { fs } = nodeParts() ?? noFiles();
  // Closed to everybody else until all is in it: nobody puts a symlink in the way.
  await fs.promises.mkdir(target, { mode: 0o700 });
  const unpacking: Unpacking = { fs, made: new Set(['']), later: [] };
  let entries = 0;
  for await (const entry of readTar(tar)) {
    entries += 1;
    await unpackOne(entry, target, unpacking);
  }
  for (const each of unpacking.later.toReversed()) await each();
  await fs.promises.chmod(target, 0o777 & ~process.umask());
  return entries;
}

async function unpackOne(entry: TarEntry, target: string, { fs, made, later }: Unpacking): Promise<void> {
  const below = entry.parts.join('/');
  const parent = entry.parts.slice(0, -1).join('/');
  if (!made.has(parent))
    throw new SquashError({
      code: 'archive_invalid',
      message: `"${below}" stands in no directory of the archive`,
    });
  const path = `${target}/${below}`;
  if (entry.type === 'symlink') {
    later.push(() => fs.promises.symlink(entry.target, path));
    return;
  }
  if (entry.type === 'directory') {
    await fs.promises.mkdir(path, { mode: 0o700 });
    made.add(below);
    later.push(async () => {
      await fs.promises.chmod(path, entry.mode & ~process.umask());
      await fs.promises.utimes(path, entry.mtimeS, entry.mtimeS);
    });
    return;
  }
  const handle = await fs.promises.open(path, 'wx', entry.mode);
  try {
    for await (const part of entry.content) await handle.appendFile(part);
    await handle.utimes(entry.mtimeS, entry.mtimeS);
  } finally {
    await handle.close();
  }
}
