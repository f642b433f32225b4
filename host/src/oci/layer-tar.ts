/**
 * Writes a layer's tree as a tar for mksquashfs: whole, in the order of its names, with the marks that the kernel's overlay knows.
 * The same tree gives the same bytes, whatever the order of the archive it came from.
 */
import { writeSync } from 'node:fs';
import type { Directory, Inode, LayerTree } from './layer-tree.ts';
import { padded, readBytes, tarBlock } from './tar-reader.ts';

/** As the overlay of a sandbox reads it. */
const opaque: readonly [string, string] = ['user.overlay.opaque', 'y'];
const bufferBytes = 1 << 20;
/** What eleven octal digits hold. */
const octalMax = 0o777_7777_7777;

export interface WrittenLayer {
  /** The latest of any file. */
  readonly mtimeS: number;
  readonly bytes: number;
}

export interface LayerFiles {
  /** Where the tree's data lies. */
  readonly source: number;
  readonly target: number;
  /** Called now and then with what has been written. */
  readonly onBytes?: (bytes: number) => void;
}

export function writeLayer(tree: LayerTree, files: LayerFiles): WrittenLayer {
  const writer = new LayerWriter(files);
  writer.directory(tree.root, '');
  return writer.end();
}

class LayerWriter {
  readonly #files: LayerFiles;
  readonly #buffer = Buffer.alloc(bufferBytes);
  #filled = 0;
  #bytes = 0;
  #mtimeS = 0;
  /** Where a file's first name is: the others are links to it. */
  readonly #written = new Map<Inode, string>();

  constructor(files: LayerFiles) {
    this.#files = files;
  }

  /** What is in it; its own entry is its parent's. */
  directory(directory: Directory, path: string): void {
    // Below an opaque directory there is nothing to delete.
    const deleted = directory.isOpaque
      ? []
      : [...directory.deleted].filter((name) => !directory.children.has(name));
    const names = [...directory.children.keys(), ...deleted].sort();
    for (const name of names) {
      const child = directory.children.get(name);
      const own = path === '' ? name : `${path}/${name}`;
      if (child === undefined) this.#whiteout(own);
      else if (child.type === 'directory')
        this.#directory(child, own, directory.deleted.has(name) && !directory.isOpaque);
      else this.#inode(child, own);
    }
  }

  end(): WrittenLayer {
    this.#write(Buffer.alloc(2 * tarBlock));
    this.#flush();
    return { mtimeS: this.#mtimeS, bytes: this.#bytes };
  }

  /** `isAnew`: what the layers below have under its name is deleted, and this is another. */
  #directory(directory: Directory, path: string, isAnew: boolean): void {
    const hides = directory.isOpaque || isAnew;
    const attributes = hides ? [...directory.attributes, opaque] : [...directory.attributes];
    this.#header({ ...directory, path, flag: '5', size: 0, target: '', attributes });
    const shown = hides ? { ...directory, isOpaque: true } : directory;
    this.directory(shown, path);
  }

  #inode(inode: Inode, path: string): void {
    const first = this.#written.get(inode);
    if (first !== undefined) {
      this.#header({ ...inode, path, flag: '1', size: 0, target: first, attributes: [] });
      return;
    }
    this.#written.set(inode, path);
    const flag = { file: '0', symlink: '2', fifo: '6' }[inode.type];
    this.#header({ ...inode, path, flag, attributes: [...inode.attributes] });
    if (inode.type === 'file') this.#data(inode);
  }

  #whiteout(path: string): void {
    this.#header({
      path,
      flag: '3',
      mode: 0,
      uid: 0,
      gid: 0,
      mtimeS: 0,
      size: 0,
      target: '',
      attributes: [],
    });
  }

  #data({ dataOffset, size }: Inode): void {
    for (let at = 0; at < size; ) {
      const piece = readBytes(this.#files.source, dataOffset + at, Math.min(bufferBytes, size - at));
      this.#write(piece);
      at += piece.length;
    }
    this.#write(Buffer.alloc(padded(size) - size));
  }

  #header(entry: HeaderFields): void {
    this.#mtimeS = Math.max(this.#mtimeS, entry.mtimeS);
    const records = [
      ...(entry.path.length > 100 ? [['path', entry.path] as const] : []),
      ...(entry.target.length > 100 ? [['linkpath', entry.target] as const] : []),
      ...(entry.size > octalMax ? [['size', `${entry.size}`] as const] : []),
      ...entry.attributes.map(([name, value]) => [`SCHILY.xattr.${name}`, value] as const),
    ];
    if (records.length > 0) {
      const body = Buffer.from(records.map(paxRecord).join(''), 'latin1');
      const fields = { path: 'pax', mode: 0o644, uid: 0, gid: 0, mtimeS: 0, target: '', attributes: [] };
      this.#write(headerBlock({ ...fields, flag: 'x', size: body.length }));
      this.#write(body);
      this.#write(Buffer.alloc(padded(body.length) - body.length));
    }
    this.#write(headerBlock(entry));
  }

  #write(bytes: Buffer): void {
    if (this.#filled + bytes.length > bufferBytes) this.#flush();
    if (bytes.length > bufferBytes) return this.#writeOut(bytes);
    bytes.copy(this.#buffer, this.#filled);
    this.#filled += bytes.length;
  }

  #flush(): void {
    this.#writeOut(this.#buffer.subarray(0, this.#filled));
    this.#filled = 0;
  }

  #writeOut(bytes: Buffer): void {
    for (let written = 0; written < bytes.length; ) {
      written += writeSync(this.#files.target, bytes, written, bytes.length - written);
    }
    this.#bytes += bytes.length;
    this.#files.onBytes?.(this.#bytes);
  }
}

interface HeaderFields {
  readonly path: string;
  readonly flag: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtimeS: number;
  readonly size: number;
  readonly target: string;
  readonly attributes: readonly (readonly [string, string])[];
}

/** `LENGTH KEY=VALUE\n`, where the length counts its own digits. */
export function paxRecord([key, value]: readonly [string, string]): string {
  const rest = ` ${key}=${value}\n`;
  let length = rest.length + 1;
  while (`${length}`.length + rest.length !== length) length = `${length}`.length + rest.length;
  return `${length}${rest}`;
}

export function headerBlock(entry: HeaderFields): Buffer {
  const header = Buffer.alloc(tarBlock);
  header.write(entry.path.slice(0, 100), 0, 'latin1');
  header.write(entry.target.slice(0, 100), 157, 'latin1');
  const octal = (value: number, offset: number, digits: number): void => {
    header.write(`${value.toString(8).padStart(digits, '0')}\0`, offset, 'latin1');
  };
  octal(entry.mode, 100, 7);
  octal(entry.uid, 108, 7);
  octal(entry.gid, 116, 7);
  octal(Math.min(entry.size, octalMax), 124, 11);
  octal(entry.mtimeS, 136, 11);
  octal(0, 329, 7);
  octal(0, 337, 7);
  header.write(`        ${entry.flag}`, 148, 'latin1');
  header.write('ustar\x0000', 257, 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return header;
}
