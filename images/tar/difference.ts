/**
 * A built tree becomes a layer: what tells of the machine it was built on is dropped or replaced, and on a base
 * only what differs from the base is kept, with whiteouts for what the base has and the tree has not.
 *
 * Times do not count as a difference: a rebuilt cache with the same bytes stays in the base.
 */
import { createHash } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { ownHeader, readBytes, readTar, type TarEntry, TarWriter } from './format.ts';

/** Left out of every layer: device nodes (the driver makes `/dev`), and what each build writes anew. */
const dropped = [
  /^dev\//,
  /^run\//,
  /^tmp\//,
  /^var\/log\/.*[^/]$/,
  /^var\/cache\/(ldconfig\/aux-cache|debconf\/.*-old|apt\/.+)$/,
  /^var\/lib\/dpkg\/.*-old$/,
  /^var\/lib\/apt\/lists\/.+/,
  // The machine's mirrors, which may be private or carry a password; the base recipe writes Debian's own.
  /^etc\/apt\/(sources\.list(\.d\/.*)?|auth\.conf(\.d\/.*)?)$/,
];

export interface LayerTree {
  readonly tar: string;
  /** Written over what is in the archive. */
  readonly files: Readonly<Record<string, string>>;
  readonly mtimeS: number;
}

/** Writes `target`: the tree without what is dropped, and without what `base` (such an archive) has as well. */
export function writeLayerTar(tree: LayerTree, target: string, base?: string): void {
  using source = open(tree.tar, 'r');
  using output = open(target, 'w');
  const writer = new TarWriter(output.descriptor);
  const known = base === undefined ? new Map<string, string>() : fingerprints(base);
  const built = new Set<string>();
  const wanted = new Set<string>();
  const keep = (path: string) => {
    for (let at = path; !wanted.has(at); at = parentOf(at)) wanted.add(at);
  };
  for (const entry of readTar(source.descriptor)) {
    if (isDropped(entry, tree)) continue;
    built.add(entry.path);
    if (known.get(entry.path) === fingerprint(entry, source.descriptor)) continue;
    keep(entry.path);
    // A hard link is nothing without the file it names, even where that file is the base's.
    if (entry.type === 'link') keep(entry.target);
  }
  for (const path of Object.keys(tree.files)) built.add(path);
  const written = Object.entries(tree.files).filter(
    ([path, text]) => known.get(path) !== ownFingerprint(text),
  );
  const removed = [...known.keys()].filter((path) => !built.has(path) && built.has(parentOf(path)));
  for (const path of [...written.map(([own]) => own), ...removed]) keep(parentOf(path));
  for (const entry of readTar(source.descriptor)) {
    if (wanted.has(entry.path) && !isDropped(entry, tree)) writer.copy(entry, source.descriptor);
  }
  const { mtimeS } = tree;
  for (const [path, text] of written) {
    const data = Buffer.from(text);
    writer.own(ownHeader({ path, type: 'file', mode: ownMode(text), size: data.length, mtimeS }), data);
  }
  for (const path of removed) writer.own(ownHeader({ path, type: 'character', mode: 0, size: 0, mtimeS }));
  writer.end();
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

function isDropped(entry: TarEntry, tree: LayerTree): boolean {
  if (Object.hasOwn(tree.files, entry.path)) return true;
  if (entry.type === 'directory' && entry.path.startsWith('var/log/')) return false;
  return dropped.some((pattern) => pattern.test(entry.path));
}

function fingerprints(tar: string): Map<string, string> {
  using source = open(tar, 'r');
  const found = new Map<string, string>();
  for (const entry of readTar(source.descriptor))
    found.set(entry.path, fingerprint(entry, source.descriptor));
  return found;
}

function fingerprint(entry: TarEntry, descriptor: number): string {
  if (entry.type === 'file') {
    return fileFingerprint(entry, entry.attributes, readBytes(descriptor, entry.dataOffset, entry.size));
  }
  return JSON.stringify([entry.type, entry.mode, entry.uid, entry.gid, entry.target, entry.attributes]);
}

/** What `writeLayerTar` writes a file of the recipe as. */
function ownFingerprint(text: string): string {
  return fileFingerprint({ mode: ownMode(text), uid: 0, gid: 0 }, [], Buffer.from(text));
}

/** A text that names its interpreter is a program. */
function ownMode(text: string): number {
  return text.startsWith('#!') ? 0o755 : 0o644;
}

function fileFingerprint(
  owner: Pick<TarEntry, 'mode' | 'uid' | 'gid'>,
  attributes: readonly string[],
  data: Buffer,
): string {
  const digest = createHash('sha256').update(data).digest('hex');
  return JSON.stringify(['file', owner.mode & 0o7777, owner.uid, owner.gid, attributes, digest]);
}

/** The text of one file in an archive. */
export function readFromTar(tar: string, path: string): string | undefined {
  using source = open(tar, 'r');
  for (const entry of readTar(source.descriptor)) {
    if (entry.path !== path) continue;
    return readBytes(source.descriptor, entry.dataOffset, entry.size).toString('utf8');
  }
  return undefined;
}

function open(path: string, flags: 'r' | 'w'): { readonly descriptor: number } & Disposable {
  const descriptor = openSync(path, flags);
  return { descriptor, [Symbol.dispose]: () => closeSync(descriptor) };
}
