/**
 * A directory of this machine, as a tar to a sandbox and back: then it has its name when all of it is there.
 */
import type { PathLike } from 'node:fs';
import { SquashError } from './errors.ts';
import { noFiles, partialName } from './local-file.ts';
import { unpackTree } from './new-tree.ts';
import { nodeParts, type NodeParts } from './node-parts.ts';
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
