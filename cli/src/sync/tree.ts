/** A directory on one side of `squash sync` as it was found: what is compared, and nothing that is opened. */
import { visible } from '../output/print.ts';

export interface TreeEntry {
  readonly type: 'file' | 'directory' | 'symlink' | 'other';
  readonly size: number;
  /** The nine bits. */
  readonly mode: number;
  readonly mtimeMs: number;
  /** Of a symlink, its bytes as the paths have them. */
  readonly target: string;
}

export interface Tree {
  /**
   * By paths relative to the directory, each directory before what is in it. Names need not be UTF-8, so a character here is
   * one byte (latin1).
   */
  readonly entries: ReadonlyMap<string, TreeEntry>;
  /** Directories that hold something excluded: they stay, whatever is removed. */
  readonly kept: ReadonlySet<string>;
}

/** As `rsync`'s and ours: what somebody else is still writing. */
const temporaryName = /(?:^|\/)\.squash-[0-9a-f]{16}\.tmp$/;

export function isTemporary(path: string): boolean {
  return temporaryName.test(path);
}

export const bytesOf = (path: string): Buffer => Buffer.from(path, 'latin1');

export const pathOf = (bytes: Buffer): string => bytes.toString('latin1');

/** For a terminal. */
export const shown = (path: string): string => visible(bytesOf(path).toString('utf8'));

/** `a/b` is in `a`, `a` in ``. */
export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

/** `a/b/c` is in `a/b`, in `a` and in ``. */
export function* parentsOf(path: string): Generator<string, void, void> {
  for (let at = parentOf(path); ; at = parentOf(at)) {
    yield at;
    if (at === '') return;
  }
}

/**
 * Whether a link leads to something in the tree, whatever other links of the tree are on the way: `..` only at its beginning,
 * where the directories above it are real ones, and no more often than there are such.
 */
export function staysInside(path: string, target: string): boolean {
  if (target === '' || target.startsWith('/')) return false;
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const ups = parts.findIndex((part) => part !== '..');
  const leading = ups < 0 ? parts.length : ups;
  return leading <= path.split('/').length - 1 && !parts.slice(leading).includes('..');
}
