/**
 * A directory that a tar of a sandbox is unpacked into, as if by an enemy: it is new, nothing is written through a symlink (they are
 * made last), and nothing has owners or set-id bits.
 *
 * Whoever may write to the directory above it, such as a sandbox that has it attached, can put a link in its place while it is filled.
 * So every name is opened from its directory's descriptor, where the system has a way to that: Linux, which daemons run on.
 */
import { SquashError } from './errors.ts';
import { descriptorsOf, directoryFlags, removeWithin } from './held-directory.ts';
import { noFiles } from './local-file.ts';
import { nodeParts, type NodeParts } from './node-parts.ts';
import { readTar, type TarEntry } from './tar-reader.ts';

/**
 * Returns how many entries there were.
 * @param target is made, and removed again where this throws
 * @param finish what is done with it when all is in it
 */
export async function unpackTree(
  tar: AsyncIterable<Uint8Array>,
  target: string,
  finish: () => Promise<void>,
): Promise<number> {
  const { fs } = nodeParts() ?? noFiles();
  // Closed to everybody else until all is in it.
  await fs.promises.mkdir(target, { mode: 0o700 });
  const tree = new NewTree(fs, target);
  try {
    const entries = await fill(tree, tar);
    await finish();
    return entries;
  } catch (error) {
    await tree.remove();
    throw error;
  } finally {
    tree.close();
  }
}

async function fill(tree: NewTree, tar: AsyncIterable<Uint8Array>): Promise<number> {
  const made = new Set(['']);
  const later: (() => Promise<void>)[] = [];
  let entries = 0;
  for await (const entry of readTar(tar)) {
    entries += 1;
    if (!made.has(entry.parts.slice(0, -1).join('/'))) {
      const below = entry.parts.join('/');
      throw new SquashError({
        code: 'archive_invalid',
        message: `"${below}" stands in no directory of the archive`,
      });
    }
    if (entry.type === 'directory') made.add(entry.parts.join('/'));
    const finish = await tree.take(entry);
    if (finish !== undefined) later.push(finish);
  }
  for (const each of later.toReversed()) await each();
  tree.open();
  return entries;
}

type Files = NodeParts['fs'];

class NewTree {
  readonly #fs: Files;
  readonly #root: number;
  /** Undefined: names are opened by their paths. */
  readonly #descriptors: string | undefined;
  readonly #path: string;

  /** @throws where something else stands there by now */
  constructor(fs: Files, path: string) {
    this.#fs = fs;
    this.#path = path;
    this.#root = fs.openSync(path, directoryFlags(fs));
    this.#descriptors = descriptorsOf(fs, this.#root);
    const { uid } = fs.fstatSync(this.#root);
    const own = nodeParts()?.uid ?? -1;
    if (own >= 0 && uid !== own) {
      fs.closeSync(this.#root);
      throw new SquashError({ code: 'file_changed', message: `"${path}" was replaced by another user` });
    }
  }

  close(): void {
    this.#fs.closeSync(this.#root);
  }

  /** As far as it can be: what went wrong before is what is told. */
  async remove(): Promise<void> {
    try {
      // Never by paths: of what is removed a part may have become a link.
      if (this.#descriptors !== undefined) removeWithin(this.#fs, this.#descriptors, this.#root);
      else await this.#fs.promises.rm(this.#path, { recursive: true, force: true });
      this.#fs.rmdirSync(this.#path);
    } catch {
      // It is another's by now, or gone.
    }
  }

  /** To those who may see new directories of the caller. */
  open(): void {
    this.#fs.fchmodSync(this.#root, 0o777 & ~process.umask());
  }

  /** Makes it. What is left to do comes when everything else is there: links, and modes and times of directories. */
  async take({
    type,
    parts,
    mode,
    mtimeS,
    target,
    content,
  }: TarEntry): Promise<(() => Promise<void>) | undefined> {
    const fs = this.#fs;
    const above = parts.slice(0, -1);
    const name = parts.at(-1) ?? '';
    if (type === 'symlink') {
      return () => this.#within(above, (place) => fs.promises.symlink(target, `${place}/${name}`));
    }
    if (type === 'directory') {
      await this.#within(above, (place) => fs.promises.mkdir(`${place}/${name}`, { mode: 0o700 }));
      return () =>
        this.#within(parts, async (place) => {
          await fs.promises.chmod(`${place}/.`, mode & ~process.umask());
          await fs.promises.utimes(`${place}/.`, mtimeS, mtimeS);
        });
    }
    const handle = await this.#within(above, (place) => fs.promises.open(`${place}/${name}`, 'wx', mode));
    try {
      for await (const part of content) await handle.appendFile(part);
      await handle.utimes(mtimeS, mtimeS);
    } finally {
      await handle.close();
    }
    return undefined;
  }

  /** With a path to a directory of the tree that leads nowhere else. */
  async #within<T>(parts: readonly string[], act: (place: string) => Promise<T>): Promise<T> {
    const at = this.#descriptors;
    if (at === undefined) return await act([this.#path, ...parts].join('/'));
    let fd = this.#root;
    try {
      for (const part of parts) {
        const next = this.#fs.openSync(`${at}/${fd}/${part}`, directoryFlags(this.#fs));
        if (fd !== this.#root) this.#fs.closeSync(fd);
        fd = next;
      }
      return await act(`${at}/${fd}`);
    } finally {
      if (fd !== this.#root) this.#fs.closeSync(fd);
    }
  }
}
