/**
 * The directory here of `squash sync`. What it holds may have come out of a sandbox, which may even have it mounted and change it
 * meanwhile: every name is opened from its directory's descriptor, one after the other and never through a symlink, so that
 * nothing outside of the directory is read or written.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  type Stats,
  statfsSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { CliFailure, errorCode, fileProblem } from '../failure.ts';
import type { Excludes } from './exclusions.ts';
import {
  bytesOf,
  isTemporary,
  parentOf,
  parentsOf,
  pathOf,
  shown,
  type Tree,
  type TreeEntry,
} from './tree.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

export interface NewFile {
  /** As it is to be here. */
  readonly mode: number;
  readonly mtimeMs: number;
  readonly content: AsyncIterable<Buffer>;
}

export class LocalTree implements Disposable {
  readonly #root: number;
  readonly #path: string;
  /** Unfinished files: removed when we are ended in between. */
  readonly #unfinished = new Set<Buffer>();

  /** @param path a directory; a symlink to one is followed, the caller has named it */
  constructor(path: string, flags = 0) {
    this.#path = path;
    this.#root = openSync(path, O_RDONLY | O_DIRECTORY | flags);
  }

  /** A new directory, closed to everybody else: what was put in its place since is not taken for it. */
  static make(path: string): LocalTree {
    mkdirSync(path, { mode: 0o700 });
    const tree = new LocalTree(path, O_NOFOLLOW);
    if (fstatSync(tree.#root).uid === process.geteuid?.()) return tree;
    tree[Symbol.dispose]();
    throw new CliFailure('file_changed', `"${path}" was replaced by another user`);
  }

  /** Empty where there is no such directory and none is to be made. */
  static open(path: string, isMade: boolean): LocalTree | undefined {
    try {
      if (isMade) mkdirSync(path, { recursive: true });
      return new LocalTree(path);
    } catch (cause) {
      if (!isMade && errorCode(cause) === 'ENOENT') return undefined;
      const problem = errorCode(cause) === 'ENOTDIR' ? 'it is no directory' : fileProblem(cause);
      throw new CliFailure('file_unreadable', `can't open "${path}": ${problem}`);
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#root);
  }

  scan(excludes: Excludes): Tree {
    const entries = new Map<string, TreeEntry>();
    const kept = new Set<string>();
    const waiting = [''];
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      for (const [name, stats, target] of this.#list(path)) {
        const at = path === '' ? name : `${path}/${name}`;
        if (isTemporary(at) || excludes(at, stats.isDirectory())) {
          for (const above of parentsOf(at)) kept.add(above);
          continue;
        }
        entries.set(at, entryOf(stats, target));
        if (stats.isDirectory()) waiting.push(at);
      }
    }
    return { entries, kept };
  }

  #list(path: string): readonly (readonly [string, Stats, string])[] {
    return this.#within(path, (directory) => {
      const names = readdirSync(inside(directory, ''), { encoding: 'buffer' });
      return names
        .toSorted((one, other) => one.compare(other))
        .map((name) => {
          const at = inside(directory, pathOf(name));
          const stats = lstatSync(at);
          const target = stats.isSymbolicLink() ? pathOf(readlinkSync(at, { encoding: 'buffer' })) : '';
          return [pathOf(name), stats, target] as const;
        });
    });
  }

  /** A regular file's descriptor, which is the caller's. */
  openFile(path: string): number {
    return this.#within(parentOf(path), (directory) => {
      const fd = openSync(inside(directory, nameOf(path)), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      if (fstatSync(fd).isFile()) return fd;
      closeSync(fd);
      throw new CliFailure('file_unreadable', `"${shown(path)}" is no file any more`);
    });
  }

  makeDirectory(path: string): void {
    this.#within(parentOf(path), (directory) => mkdirSync(inside(directory, nameOf(path)), { mode: 0o700 }));
  }

  /** When all is in it. */
  finishDirectory(path: string, mode: number, mtimeMs?: number): void {
    this.#within(path, (directory) => {
      if (mtimeMs !== undefined) setTime(directory, mtimeMs);
      fchmodSync(directory, mode);
    });
  }

  makeLink(path: string, target: string): void {
    this.#within(parentOf(path), (directory) => {
      const temporary = inside(directory, temporaryName());
      symlinkSync(bytesOf(target), temporary);
      renameSync(temporary, inside(directory, nameOf(path)));
    });
  }

  remove(path: string): void {
    this.#within(parentOf(path), (directory) => removeBelow(directory, nameOf(path)));
  }

  /** The file has its name when all of it is there. */
  async writeFile(path: string, { mode, mtimeMs, content }: NewFile): Promise<void> {
    const directory = this.#open(parentOf(path));
    try {
      const temporary = inside(directory, temporaryName());
      this.#unfinished.add(temporary);
      try {
        const fd = openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
        try {
          for await (const part of content) writeAll(fd, part);
          fchmodSync(fd, mode);
          setTime(fd, mtimeMs);
        } finally {
          closeSync(fd);
        }
        renameSync(temporary, inside(directory, nameOf(path)));
      } catch (cause) {
        rmSync(temporary, { force: true });
        throw cause;
      } finally {
        this.#unfinished.delete(temporary);
      }
    } finally {
      closeSync(directory);
    }
  }

  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.#path);
    return bavail * bsize;
  }

  /** For a signal's handler. */
  dropUnfinished(): void {
    for (const temporary of this.#unfinished) {
      try {
        unlinkSync(temporary);
      } catch {
        // It has its name already, or was never made.
      }
    }
  }

  #within<T>(path: string, act: (directory: number) => T): T {
    const directory = this.#open(path);
    try {
      return act(directory);
    } finally {
      closeSync(directory);
    }
  }

  /** The descriptor of a directory in the tree. @throws where one on the way is a symlink */
  #open(path: string): number {
    let fd = openSync(inside(this.#root, ''), O_RDONLY | O_DIRECTORY);
    for (const name of path === '' ? [] : path.split('/')) {
      let next;
      try {
        next = openSync(inside(fd, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      } finally {
        closeSync(fd);
      }
      fd = next;
    }
    return fd;
  }
}

/** What a copy of a file or directory of this mode has: nobody more than usual, and no set-id bits. */
export function copiedMode(mode: number): number {
  return mode & 0o777 & ~umask;
}

/** The same where the caller goes on with it: he can always read and change it. */
export function localMode(mode: number): number {
  return copiedMode(mode) | 0o600;
}

const umask = process.umask();

function setTime(fd: number, mtimeMs: number): void {
  // Node hands on a fraction of seconds, which may be a millisecond less by rounding.
  const seconds = (mtimeMs + 0.001) / 1_000;
  futimesSync(fd, seconds, seconds);
}

/** As `openat`: Node has none. */
function inside(directory: number, name: string): Buffer {
  return Buffer.concat([Buffer.from(`/proc/self/fd/${directory}/`), bytesOf(name)]);
}

/** Whatever it is, and all in it: what becomes a symlink meanwhile is never gone through. */
function removeBelow(directory: number, name: string): void {
  const at = inside(directory, name);
  try {
    if (!lstatSync(at).isDirectory()) return unlinkSync(at);
    const below = openSync(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    try {
      const names = readdirSync(inside(below, ''), { encoding: 'buffer' });
      for (const inner of names) removeBelow(below, pathOf(inner));
    } finally {
      closeSync(below);
    }
    rmdirSync(at);
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') throw cause;
  }
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

const temporaryName = (): string => `.squash-${randomBytes(8).toString('hex')}.tmp`;

function writeAll(fd: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
}

function entryOf(stats: Stats, target: string): TreeEntry {
  const type = stats.isFile()
    ? 'file'
    : stats.isDirectory()
      ? 'directory'
      : stats.isSymbolicLink()
        ? 'symlink'
        : 'other';
  return {
    type,
    size: type === 'file' ? stats.size : 0,
    mode: stats.mode & 0o777,
    mtimeMs: Math.floor(stats.mtimeMs),
    target,
  };
}
