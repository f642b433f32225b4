/** What `squash sync` has to do, from what both sides have: pure, so that `--dry-run` tells exactly what would be done. */
import { CliFailure } from '../failure.ts';
import { parentOf, parentsOf, shown, type Tree, type TreeEntry } from './tree.ts';

export interface Plan {
  /** Files, links and directories that the other side has not, or otherwise; each directory before what is in it. */
  readonly send: readonly string[];
  /** What stands over there under the name of something of another kind: it goes first. */
  readonly clear: readonly string[];
  /** What is over there only: it goes last. Nothing of it stands in another of them. */
  readonly remove: readonly string[];
  readonly unchanged: number;
  /** Of the files that are sent. */
  readonly bytes: number;
}

export interface PlanOptions {
  readonly isDeleting: boolean;
  /** Of two files. */
  readonly isSame: (path: string, from: TreeEntry, to: TreeEntry) => boolean;
}

export function planOf(from: Tree, to: Tree, { isDeleting, isSame }: PlanOptions): Plan {
  const send: string[] = [];
  const clear: string[] = [];
  let unchanged = 0;
  let bytes = 0;
  for (const [path, entry] of from.entries) {
    if (entry.type === 'other') continue;
    const there = to.entries.get(path);
    if (there?.type === entry.type && isAlike(path, { entry, there, isSame })) {
      unchanged += 1;
      continue;
    }
    if (there !== undefined && there.type !== entry.type) {
      if (there.type === 'directory' && (!isDeleting || to.kept.has(path))) throw inTheWay(path);
      clear.push(path);
    }
    send.push(path);
    if (entry.type === 'file') bytes += entry.size;
  }
  return { send, clear, remove: isDeleting ? surplus(from, to) : [], unchanged, bytes };
}

interface Pair {
  readonly entry: TreeEntry;
  readonly there: TreeEntry;
  readonly isSame: PlanOptions['isSame'];
}

function isAlike(path: string, { entry, there, isSame }: Pair): boolean {
  if (entry.type === 'symlink') return entry.target === there.target;
  return entry.type === 'directory' || isSame(path, entry, there);
}

function surplus(from: Tree, to: Tree): readonly string[] {
  const gone = new Set<string>();
  const top: string[] = [];
  for (const path of to.entries.keys()) {
    const parent = parentOf(path);
    if (gone.has(parent)) {
      gone.add(path);
      continue;
    }
    if (from.entries.has(path) || to.kept.has(path)) continue;
    // What is in the way of a file goes as a whole before that is sent.
    if ([...parentsOf(path)].some((above) => from.entries.get(above)?.type === 'file')) continue;
    if ([...parentsOf(path)].some((above) => from.entries.get(above)?.type === 'symlink')) continue;
    gone.add(path);
    top.push(path);
  }
  return top;
}

/**
 * Size and time to the millisecond. A time of whole seconds is compared as such: tools that know no more, and sandboxes that
 * were started by an earlier release, keep no more.
 */
export function sameSizeAndTime(from: TreeEntry, to: TreeEntry): boolean {
  const isWhole = from.mtimeMs % 1_000 === 0 || to.mtimeMs % 1_000 === 0;
  const unit = isWhole ? 1_000 : 1;
  return from.size === to.size && Math.floor(from.mtimeMs / unit) === Math.floor(to.mtimeMs / unit);
}

function inTheWay(path: string): CliFailure {
  return new CliFailure(
    'is_a_directory',
    `"${shown(path)}" is a directory on the other side; --delete replaces it, unless it holds what is excluded`,
  );
}
