/**
 * A directory of this machine, as a tar to a sandbox and back: then it has its name when all of it is there.
 */
import { SquashError } from './errors.ts';
import { type Held, holdBelow, holdRoot } from './held-directory.ts';
import { noFiles, partialName } from './local-file.ts';
import { unpackTree } from './new-tree.ts';
import { nodeParts, type NodeParts } from './node-parts.ts';
import { tarEnd, tarHeader, tarPadding, type WrittenEntry } from './tar-writer.ts';

type Files = NodeParts['fs'];

/** Files, directories and symlinks; what else stands there has no sense in another place. Nothing outside is read, whatever becomes a link. */
export async function* uploadTree(local: string): AsyncGenerator<Uint8Array, void, void> {
  const { fs } = nodeParts() ?? noFiles();
  const root = holdRoot(fs, local);
  try {
    yield* packBelow(fs, root, '');
  } finally {
    root.close();
  }
  yield tarEnd();
}

async function* packBelow(fs: Files, above: Held, below: string): AsyncGenerator<Uint8Array, void, void> {
  const names = (await fs.promises.readdir(above.place)).sort();
  for (const each of names) {
    const name = below === '' ? each : `${below}/${each}`;
    const place = `${above.place}/${each}`;
    const facts = await fs.promises.lstat(place);
    const common = { name, mode: facts.mode, mtimeMs: Math.floor(facts.mtimeMs / 1000) * 1000 };
    if (facts.isSymbolicLink()) {
      const target = await fs.promises.readlink(place);
      yield tarHeader({ ...common, type: 'symlink', size: 0, target });
    } else if (facts.isDirectory()) {
      const inner = holdBelow(fs, above, each);
      try {
        yield tarHeader({ ...common, type: 'directory', size: 0, target: '' });
        yield* packBelow(fs, inner, name);
      } finally {
        inner.close();
      }
    } else if (facts.isFile()) {
      yield* packFile(fs, place, { ...common, type: 'file', size: facts.size, target: '' });
    }
  }
}

const partBytes = 65_536;

/** As many bytes as its header says, whatever becomes of the file meanwhile. */
async function* packFile(
  fs: Files,
  place: string,
  entry: WrittenEntry & { readonly name: string },
): AsyncGenerator<Uint8Array, void, void> {
  // A pipe that has taken its place is no wait.
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
  const handle = await fs.promises.open(place, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    if (!(await handle.stat()).isFile())
      throw new SquashError({ code: 'file_changed', message: `"${entry.name}" is no file any more` });
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
  // Never over anything but an empty directory, whoever made one meanwhile.
  return await unpackTree(tar, partial, () => fs.promises.rename(partial, local));
}

function exists(path: string): SquashError {
  return new SquashError({ code: 'file_exists', message: `"${path}" exists` });
}
