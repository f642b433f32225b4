/**
 * Reads an archive that somebody else made, as an enemy's: what of it becomes part of a layer, and where.
 *
 * Nothing is unpacked on this machine, so a name that leads elsewhere could write nothing here. It is refused all the same: an
 * archive with such names is none that was made for this, and what reads the layer later need not know.
 */
import { closeSync, openSync } from 'node:fs';
import { Failure } from '@squash/base/failure';
import type { EntryHeader } from './entry-header.ts';
import { readTar, type TarEntry } from './format.ts';

const entriesMax = 300_000;
const nameBytesMax = 4_000;
const idMax = 65_534;
/** Entries are written with headers of our own. */
const noHeader = Buffer.alloc(0);

export interface ForeignArchive {
  readonly tar: string;
  readonly strip: number;
  readonly into: string;
  readonly only: readonly string[] | undefined;
  /** Of places in the layer. */
  readonly leaveOut: readonly string[];
  /** Owners, set-id bits and file capabilities stay as they are. */
  readonly keepsOwners: boolean;
}

export interface PlannedEntry extends EntryHeader {
  /** Where it is, of a file. */
  readonly content: { readonly tar: string; readonly entry: TarEntry } | undefined;
}

/** @throws with the name of the entry that is refused */
export function readForeign(archive: ForeignArchive): readonly PlannedEntry[] {
  const planned = new Map<string, PlannedEntry>();
  const descriptor = openSync(archive.tar, 'r');
  let count = 0;
  try {
    for (const entry of readTar(descriptor)) {
      count += 1;
      if (count > entriesMax) throw refusal(entry.path, `is one of more than ${entriesMax} entries`);
      const placed = placeOf(checkedName(entry.path, entry.path), archive);
      if (placed === undefined) continue;
      const plan = planOf(entry, placed, archive);
      if (plan === undefined) continue;
      const other = planned.get(placed);
      if (other !== undefined && !(other.type === 'directory' && plan.type === 'directory'))
        throw refusal(entry.path, 'is there twice');
      planned.set(placed, plan);
    }
  } finally {
    closeSync(descriptor);
  }
  const all = [...planned.values()];
  for (const plan of all) checkPlace(plan, planned);
  return all;
}

function planOf(entry: TarEntry, path: string, archive: ForeignArchive): PlannedEntry | undefined {
  const { type } = entry;
  // The driver makes `/dev`; systems' archives have some of its nodes.
  if (path.startsWith('dev/')) return undefined;
  if (type === 'character' || type === 'block' || type === 'fifo')
    throw refusal(entry.path, `is a ${type === 'fifo' ? 'pipe' : 'device'}`);
  if (!Number.isSafeInteger(entry.size) || entry.size < 0 || entry.size >= 8 ** 11)
    throw refusal(entry.path, 'has no size that a file can have');
  if (archive.keepsOwners && !(entry.uid <= idMax && entry.gid <= idMax))
    throw refusal(entry.path, `belongs to ${entry.uid}:${entry.gid}, ids above ${idMax}`);
  return {
    path,
    type,
    mode: modeOf(entry, archive),
    uid: archive.keepsOwners ? entry.uid : 0,
    gid: archive.keepsOwners ? entry.gid : 0,
    size: entry.size,
    mtimeS: mtimeOf(entry),
    target: targetOf(entry, path, archive),
    // Others mean something to an overlay.
    attributes: archive.keepsOwners
      ? entry.attributes.filter((text) => text.startsWith('SCHILY.xattr.security.capability='))
      : [],
    content: type === 'file' ? { tar: archive.tar, entry: { ...entry, header: noHeader } } : undefined,
  };
}

/** npm packs what it likes: what becomes root's is readable for everybody. */
function modeOf({ type, mode }: TarEntry, archive: ForeignArchive): number {
  if (type === 'symlink') return 0o777;
  if (archive.keepsOwners) return mode & 0o7777;
  return (mode & 0o777) | (type === 'directory' ? 0o755 : 0o644);
}

/** Of the last header, which is the entry's own. */
function mtimeOf({ header }: TarEntry): number {
  const digits = header.toString('latin1', header.length - 512 + 136, header.length - 512 + 147);
  const seconds = Number.parseInt(digits.trim() || '0', 8);
  return Number.isSafeInteger(seconds) && seconds > 0 ? Math.min(seconds, 0xff_ff_ff_ff) : 0;
}

function checkedName(name: string, entry: string): string {
  const parts = name.split('/').filter((part) => part !== '' && part !== '.');
  if (name.length > nameBytesMax || parts.some((part) => part.length > 255))
    throw refusal(entry.slice(0, 100), 'has a name that is too long');
  if (parts.includes('..')) throw refusal(entry, 'leads out of the archive');
  if (name.includes('\0')) throw refusal(entry, 'has a name with a zero byte');
  // Marks of a deletion: they mean something to whoever unpacks the layer.
  if (parts.some((part) => part.startsWith('.wh.'))) throw refusal(entry, 'is a mark that deletes files');
  return parts.join('/');
}

/** Undefined where it is no part of the layer. */
function placeOf(name: string, archive: ForeignArchive): string | undefined {
  const rest = name.split('/').slice(archive.strip).join('/');
  if (rest === '') return undefined;
  const { only, leaveOut, into } = archive;
  if (only !== undefined && !only.some((wanted) => isMeant(name, wanted))) return undefined;
  const path = into === '' ? rest : `${into}/${rest}`;
  return leaveOut.some((unwanted) => isIn(path, unwanted)) ? undefined : path;
}

function isMeant(name: string, wanted: string): boolean {
  const parts = name.split('/');
  return wanted
    .split('/')
    .every((part, index) => (part === '*' ? parts[index] !== undefined : part === parts[index]));
}

function isIn(path: string, place: string): boolean {
  return path === place || path.startsWith(`${place}/`);
}

function targetOf(entry: TarEntry, path: string, archive: ForeignArchive): string {
  const { type, target } = entry;
  if (type === 'link') {
    const place = placeOf(checkedName(target, entry.path), archive);
    if (place === undefined) throw refusal(entry.path, `is a hard link to "${target}", which is left out`);
    return place;
  }
  if (type !== 'symlink') return '';
  if (target === '' || target.length > nameBytesMax || target.includes('\0'))
    throw refusal(entry.path, 'is a link without a name that can be');
  if (target.startsWith('/')) return target;
  let depth = path.split('/').length - 1;
  for (const part of target.split('/')) {
    if (part === '..') depth -= 1;
    else if (part !== '' && part !== '.') depth += 1;
    if (depth < 0) throw refusal(entry.path, `is a link to "${target}", out of the layer`);
  }
  return target;
}

/** Everything lies in directories, and a hard link names a file that is there. */
function checkPlace(plan: PlannedEntry, planned: ReadonlyMap<string, PlannedEntry>): void {
  for (let at = plan.path.lastIndexOf('/'); at > 0; at = plan.path.lastIndexOf('/', at - 1)) {
    const above = planned.get(plan.path.slice(0, at));
    if (above !== undefined && above.type !== 'directory')
      throw refusal(plan.path, `lies in "${above.path}", which is no directory`);
  }
  if (plan.type !== 'link') return;
  const named = planned.get(plan.target);
  if (named?.type !== 'file')
    throw refusal(plan.path, `is a hard link to "${plan.target}", which is no file`);
}

function refusal(name: string, why: string): Failure {
  return new Failure('archive_refused', `the archive is refused: "${name.slice(0, 200)}" ${why}`);
}
