/**
 * Built layers, kept in the user's cache directory so that a fresh clone finds them.
 *
 * One directory per build, named by what went into it; it appears by a rename when everything is in it, so a
 * build that was broken off leaves only a work directory, which the next build removes.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { makeScratchDirectory } from '@squash/base/scratch-directory';
import { type ModuleManifest, moduleManifestSchema } from '@squash/contract/module-manifest';
import type { Suite } from './bootstrap.ts';
import { mirrorsOf } from './mirrors.ts';
import type { FoundPreset } from './preset-files.ts';

export interface LayerFiles {
  readonly squashfs: string;
  /** The tree as a compressed archive, kept of a base: layers on it are built from this. */
  readonly tree: string;
  readonly manifest: string;
}

export interface CachedLayer extends LayerFiles {
  readonly about: ModuleManifest;
}

function cacheDirectory(): string {
  return join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'squash', 'layers');
}

/** Raised when the builder itself makes other layers of the same preset. */
const builderVersion = 5;

/** What the layer's content follows from, other than the state of the archives that it is made of. */
export function cacheKey(
  { preset, files }: FoundPreset,
  made: {
    readonly suite: Suite;
    readonly version?: string | undefined;
    readonly base: CachedLayer | undefined;
  },
): string {
  const { aliases: _aliases, licence: _licence, summary: _summary, ...content } = preset;
  const inputs = [
    builderVersion,
    content,
    files,
    mirrorsOf(preset),
    made.suite,
    made.version,
    made.base?.about.squashfs_sha256,
  ];
  const digest = createHash('sha256').update(JSON.stringify(inputs)).digest('hex').slice(0, 12);
  return `${preset.name}-${made.suite.codename}-${made.suite.architecture}-${digest}`;
}

export function findCached(key: string): CachedLayer | undefined {
  const files = layerFiles(join(cacheDirectory(), key));
  try {
    const about = moduleManifestSchema.parse(JSON.parse(readFileSync(files.manifest, 'utf8')));
    return statSync(files.squashfs).size > 0 ? { ...files, about } : undefined;
  } catch {
    // Not built yet, or by a version whose manifest was another: build it.
    return undefined;
  }
}

export function layerFiles(directory: string): LayerFiles {
  return {
    squashfs: join(directory, 'layer.squashfs'),
    tree: join(directory, 'tree.tar.zst'),
    manifest: join(directory, 'manifest.json'),
  };
}

/** Moves a finished work directory to its place and returns that; an older build of the key makes way. */
export function storeInCache(workDirectory: string, key: string): string {
  const directory = join(cacheDirectory(), key);
  for (;;) {
    try {
      renameSync(workDirectory, directory);
      break;
    } catch (error) {
      if (!isTaken(error)) throw error;
      makeWay(directory);
    }
  }
  return directory;
}

/** An older build, or that of a process beside us. Never half of it stays in its place: it goes where the next build would remove it. */
function makeWay(directory: string): void {
  const old = makeWorkDirectory();
  try {
    renameSync(directory, join(old, 'old'));
  } catch {
    // Somebody else made way.
  }
  rmSync(old, { recursive: true, force: true });
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOTEMPTY' || error.code === 'EEXIST');
}

/** An empty directory on the cache's file system, removed again unless it was stored. */
export function makeWorkDirectory(): string {
  const parent = cacheDirectory();
  mkdirSync(parent, { recursive: true });
  return makeScratchDirectory(parent, 'work');
}
