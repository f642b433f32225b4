/**
 * Puts a tree together: what Debian's packages made, entries of archives over it, and links. The archives' win where both have
 * something, except that a directory stays the one that is there.
 */
import { closeSync, openSync } from 'node:fs';
import { Failure } from '@squash/base/failure';
import { type EntryHeader, entryHeader } from './entry-header.ts';
import type { PlannedEntry } from './foreign.ts';
import { ownHeader, readTar, TarWriter } from './format.ts';

export interface Composition {
  /** A tree of our own, taken as it is. */
  readonly tree?: string;
  readonly entries: readonly PlannedEntry[];
  /** Texts by place: only where there is no tree, whose own are written by `writeLayerTar`. */
  readonly files: Readonly<Record<string, string>>;
  readonly links: Readonly<Record<string, string>>;
  /** Made where nothing else makes them. */
  readonly directories?: readonly string[] | undefined;
  readonly executables: readonly string[];
  readonly mtimeS: number;
}

type Added = EntryHeader & Partial<Pick<PlannedEntry, 'content'>>;

/** A directory or a link of ours. */
const plain = { uid: 0, gid: 0, size: 0, attributes: [], target: '' } as const;

export function composeTar(composition: Composition, target: string): void {
  const { entries, files, links, mtimeS } = composition;
  const executables = new Set(composition.executables);
  const added = new Map<string, Added>();
  for (const entry of entries) {
    const other = added.get(entry.path);
    if (other?.type === 'directory' && entry.type === 'directory') continue;
    if (other !== undefined)
      throw new Failure('preset_wrong', `the preset's sources both have "${entry.path}"`);
    const mode = executables.delete(entry.path) ? entry.mode | 0o755 : entry.mode;
    added.set(entry.path, { ...entry, mode });
  }
  for (const [path, to] of Object.entries(links))
    added.set(path, { ...plain, path, type: 'symlink', mode: 0o777, mtimeS, target: to });
  for (const path of Object.keys(files)) added.delete(path);
  if (executables.size > 0)
    throw new Failure('preset_wrong', `the sources have no file "${[...executables].join('", "')}"`);
  using output = opened(target, 'w');
  const writer = new TarWriter(output.descriptor);
  const asked = (composition.directories ?? []).flatMap((path) => [...parentsOf(path), path]);
  const parents = new Set([...[...added.keys(), ...Object.keys(files)].flatMap(parentsOf), ...asked]);
  const directories =
    composition.tree === undefined
      ? new Set<string>()
      : copyTree(composition.tree, writer, { added, parents });
  for (const path of parents) {
    if (directories.has(path)) continue;
    directories.add(path);
    const known = added.get(path);
    if (known !== undefined && known.type !== 'directory') throw noDirectory(path);
    writer.own(entryHeader(known ?? { ...plain, path, type: 'directory', mode: 0o755, mtimeS }));
  }
  writeAdded(added, writer, directories);
  for (const [path, text] of Object.entries(files)) {
    const data = Buffer.from(text);
    const mode = text.startsWith('#!') ? 0o755 : 0o644;
    writer.own(ownHeader({ path, type: 'file', mode, size: data.length, mtimeS }), data);
  }
  writer.end();
}

/** @returns its directories */
function copyTree(
  tree: string,
  writer: TarWriter,
  over: { readonly added: ReadonlyMap<string, Added>; readonly parents: ReadonlySet<string> },
): Set<string> {
  const directories = new Set<string>();
  using source = opened(tree, 'r');
  for (const entry of readTar(source.descriptor)) {
    const other = over.added.get(entry.path);
    const isSame = other?.type === 'directory' && entry.type === 'directory';
    if (other !== undefined && !isSame) continue;
    if (entry.type === 'directory') directories.add(entry.path);
    else if (over.parents.has(entry.path)) throw noDirectory(entry.path);
    writer.copy(entry, source.descriptor);
  }
  return directories;
}

function noDirectory(path: string): Failure {
  return new Failure('preset_wrong', `the preset puts files into "${path}", which is no directory`);
}

function writeAdded(
  added: ReadonlyMap<string, Added>,
  writer: TarWriter,
  directories: ReadonlySet<string>,
): void {
  let at: (Disposable & { readonly descriptor: number }) | undefined;
  let tar = '';
  try {
    // Hard links behind the files that they name.
    const ordered = [...added.values()].sort(
      (one, other) => Number(one.type === 'link') - Number(other.type === 'link'),
    );
    for (const entry of ordered) {
      if (entry.type === 'directory' && directories.has(entry.path)) continue;
      if (entry.content === undefined) {
        writer.own(entryHeader({ ...entry, size: 0 }));
        continue;
      }
      if (at === undefined || entry.content.tar !== tar) {
        at?.[Symbol.dispose]();
        tar = entry.content.tar;
        at = opened(tar, 'r');
      }
      writer.copy({ ...entry.content.entry, header: entryHeader(entry) }, at.descriptor);
    }
  } finally {
    at?.[Symbol.dispose]();
  }
}

function parentsOf(path: string): readonly string[] {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'));
}

function opened(path: string, flags: 'r' | 'w'): { readonly descriptor: number } & Disposable {
  const descriptor = openSync(path, flags);
  return { descriptor, [Symbol.dispose]: () => closeSync(descriptor) };
}
