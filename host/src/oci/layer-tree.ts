/**
 * The tree that one layer of an image is, in memory: from the entries of its tar, one after the other.
 *
 * What a newcomer would get wrong: the order of a tar counts. A later entry takes the place of an earlier one of its name,
 * a directory's entry changes the directory and not what is in it, and a hard link is to what its target is at that moment.
 * Whiteouts (`.wh.NAME`, `.wh..wh..opq`) concern the layers below alone, wherever in the tar they stand.
 *
 * A layer is anybody's word. No name leads out of the tree, no entry lies below something that is no directory, ids are those
 * that a sandbox has, and all is counted. Device nodes are left out, as every engine without root's rights leaves them out:
 * a sandbox has a `/dev` of its own.
 */
import { malformed, shown, type TarEntry } from './tar-reader.ts';

/** What a file is, wherever it is linked from. */
export interface Inode {
  readonly type: 'file' | 'symlink' | 'fifo';
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtimeS: number;
  readonly attributes: ReadonlyMap<string, string>;
  readonly size: number;
  /** Where its bytes lie. */
  readonly dataOffset: number;
  /** Of a symbolic link. */
  readonly target: string;
}

export interface Directory {
  readonly type: 'directory';
  mode: number;
  uid: number;
  gid: number;
  mtimeS: number;
  attributes: ReadonlyMap<string, string>;
  /** What the layers below have in it is hidden. */
  isOpaque: boolean;
  readonly children: Map<string, LayerNode>;
  /** Names that the layers below have no more. */
  readonly deleted: Set<string>;
}

type LayerNode = Inode | Directory;

export interface LayerBounds {
  readonly entriesMax: number;
  /** Of all names, link targets and attributes. */
  readonly textBytesMax: number;
}

/** What came of one layer. */
export interface LayerFacts {
  readonly entries: number;
  /** Device nodes that were left out. */
  readonly devices: number;
  /** The root itself hides all that is below. */
  readonly isRootOpaque: boolean;
}

const nameBytesMax = 255;
const pathBytesMax = 4_095;
/** XATTR_NAME_MAX and XATTR_SIZE_MAX. */
const attributeNameBytesMax = 255;
const attributeBytesMax = 65_536;
/** A sandbox has ids up to this one. */
export const idMax = 65_535;
const mark = '.wh.';
const opaqueMark = '.wh..wh..opq';
/** aufs's own names, which mean nothing to anybody else. */
const ownMark = '.wh..wh.';

export class LayerTree {
  readonly root: Directory = newDirectory();
  readonly #bounds: LayerBounds;
  #entries = 0;
  #text = 0;
  #devices = 0;

  constructor(bounds: LayerBounds) {
    this.#bounds = bounds;
  }

  get facts(): LayerFacts {
    return { entries: this.#entries, devices: this.#devices, isRootOpaque: this.root.isOpaque };
  }

  /** @throws Failure `tar_malformed` */
  add(entry: TarEntry): void {
    this.#count(entry);
    const names = namesOf(entry.name);
    const name = names.pop();
    if (name === undefined) {
      // The root's own owner and mode are the sandbox's.
      if (entry.type !== 'directory') throw malformed(`the root is no directory`);
      return;
    }
    const parent = this.#enter(names, entry.name);
    if (name.startsWith(mark)) return this.#delete(parent, name, entry);
    checkOwner(entry);
    if (entry.type === 'device') {
      this.#devices += 1;
      return;
    }
    if (entry.type === 'directory') return addDirectory(parent, name, entry);
    parent.children.set(name, entry.type === 'link' ? this.#linked(entry) : inodeOf(entry));
  }

  /** The tar may begin with a directory's file: one that is only implied is root's, and open to all. */
  #enter(names: readonly string[], whole: string): Directory {
    let at = this.root;
    for (const name of names) {
      if (name.startsWith(mark))
        throw malformed(`"${shown(whole)}" lies in what a mark of deletion would be`);
      const found = at.children.get(name);
      if (found === undefined) {
        this.#entries += 1;
        this.#checkBounds();
        const made = newDirectory();
        at.children.set(name, made);
        at = made;
      } else if (found.type === 'directory') at = found;
      else
        throw malformed(
          `"${shown(whole)}" lies below "${shown(name)}", which is no directory but a ${found.type}`,
        );
    }
    return at;
  }

  #delete(parent: Directory, name: string, entry: TarEntry): void {
    if (entry.type === 'directory')
      throw malformed(`"${shown(entry.name)}" is a mark of deletion and a directory`);
    if (name === opaqueMark) {
      parent.isOpaque = true;
      return;
    }
    if (name.startsWith(ownMark)) return;
    const deleted = name.slice(mark.length);
    if (deleted === '' || deleted === '.' || deleted === '..')
      throw malformed(`"${shown(entry.name)}" deletes nothing that has a name`);
    parent.deleted.add(deleted);
  }

  #linked({ name, target }: TarEntry): Inode {
    const names = namesOf(target);
    let at: LayerNode | undefined = this.root;
    for (const each of names) at = at?.type === 'directory' ? at.children.get(each) : undefined;
    if (at === undefined)
      throw malformed(`"${shown(name)}" is a hard link to "${shown(target)}", which the layer does not have`);
    if (at.type === 'directory') throw malformed(`"${shown(name)}" is a hard link to a directory`);
    return at;
  }

  #count({ name, target, attributes }: TarEntry): void {
    this.#entries += 1;
    this.#text += name.length + target.length;
    for (const [key, value] of attributes) {
      this.#text += key.length + value.length;
      if (key.length > attributeNameBytesMax || value.length > attributeBytesMax)
        throw malformed(`"${shown(name)}" has an attribute of ${value.length} bytes`);
    }
    this.#checkBounds();
  }

  #checkBounds(): void {
    if (this.#entries > this.#bounds.entriesMax)
      throw malformed(`it has more than ${this.#bounds.entriesMax} entries`);
    if (this.#text > this.#bounds.textBytesMax)
      throw malformed(`its names and attributes have more than ${this.#bounds.textBytesMax} bytes`);
  }
}

function newDirectory(): Directory {
  return {
    type: 'directory',
    mode: 0o755,
    uid: 0,
    gid: 0,
    mtimeS: 0,
    attributes: new Map(),
    isOpaque: false,
    children: new Map(),
    deleted: new Set(),
  };
}

function addDirectory(parent: Directory, name: string, entry: TarEntry): void {
  const found = parent.children.get(name);
  const directory = found?.type === 'directory' ? found : newDirectory();
  directory.mode = entry.mode;
  directory.uid = entry.uid;
  directory.gid = entry.gid;
  directory.mtimeS = entry.mtimeS;
  directory.attributes = kept(entry.attributes);
  parent.children.set(name, directory);
}

function inodeOf(entry: TarEntry): Inode {
  const { type, mode, uid, gid, mtimeS, size, dataOffset, target } = entry;
  if (type !== 'file' && type !== 'symlink' && type !== 'fifo')
    throw malformed(`"${shown(entry.name)}" is no file`);
  if (type === 'symlink' && (target === '' || target.includes('\0') || target.length > pathBytesMax))
    throw malformed(`"${shown(entry.name)}" is a symbolic link to nowhere`);
  // Those of a symbolic link are the kernel's to say.
  const attributes = type === 'file' ? kept(entry.attributes) : new Map<string, string>();
  return {
    type,
    mode: type === 'symlink' ? 0o777 : mode,
    uid,
    gid,
    mtimeS,
    size,
    dataOffset,
    target: type === 'symlink' ? target : '',
    attributes,
  };
}

/**
 * A user's own attributes and file capabilities. An overlay's marks are words to the kernel that mounts the layers: an image says by
 * whiteouts what it deletes, and nothing else by marks. What is `trusted` or of a security module is the host's.
 */
function kept(attributes: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const isKept = (name: string): boolean =>
    name === 'security.capability' ||
    (/^user\../.test(name) && !/^user\.(overlay|fuseoverlayfs)\./.test(name) && !name.includes('\0'));
  const entries = [...attributes].filter(([name]) => isKept(name));
  return new Map(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
}

function checkOwner({ name, uid, gid }: TarEntry): void {
  if (uid <= idMax && gid <= idMax) return;
  throw malformed(`"${shown(name)}" belongs to ${uid}:${gid}, and a sandbox has ids up to ${idMax}`);
}

/** A path's names; empty for the root. @throws Failure `tar_malformed` where it could lead out of the tree */
export function namesOf(path: string): string[] {
  if (path.length > pathBytesMax) throw malformed(`"${shown(path)}" is longer than ${pathBytesMax} bytes`);
  if (path.includes('\0')) throw malformed(`"${shown(path)}" has a zero byte`);
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  for (const name of names) {
    if (name === '..') throw malformed(`"${shown(path)}" leads out of the tree or could`);
    if (name.length > nameBytesMax)
      throw malformed(`"${shown(path)}" has a name longer than ${nameBytesMax} bytes`);
  }
  return names;
}
