/**
 * Builds one layer from its recipe, the layer below it first. Finished builds come from the cache.
 *
 * The layer on a base is the difference between two trees: the base's, and the same tree with the packages
 * installed into it. So it fits exactly the base it was built on, which its manifest names.
 */
import { createReadStream, createWriteStream, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { makeScratchDirectory } from '@squash/base/scratch-directory';
import type { ModuleManifest } from '@squash/contract/module-manifest';
import { layerDigestSchema } from '@squash/contract/ids';
import { bootstrap, dpkgStatus, hostSuite, installedPackages, type Suite } from './bootstrap.ts';
import {
  type CachedLayer,
  cacheKey,
  findCached,
  layerFiles,
  makeWorkDirectory,
  storeInCache,
} from './cache.ts';
import { fetchPrograms } from './npm-program.ts';
import { packTar, sha256OfFile } from './pack.ts';
import { findRecipe, moduleName, type Recipe } from './recipes.ts';
import { readFromTar, writeLayerTar } from './tar/difference.ts';

export const builder = 'squash 0.1.0';

interface BuildOptions {
  /** Builds again what is in the cache: for newer packages. */
  readonly fresh: boolean;
  readonly onProgress: (layer: string, text: string) => void;
  readonly signal: AbortSignal;
}

export async function buildLayer(recipe: Recipe, options: BuildOptions): Promise<CachedLayer> {
  const suite = hostSuite();
  const baseRecipe = recipe.base === undefined ? undefined : findRecipe(recipe.base);
  const base =
    baseRecipe === undefined ? undefined : await buildLayer(baseRecipe, { ...options, fresh: false });
  const key = cacheKey(recipe, suite, base);
  const cached = options.fresh ? undefined : findCached(key);
  if (cached !== undefined) return cached;
  const work = makeWorkDirectory();
  // Not in the home directory: the tree belongs to other ids, which must be able to reach it.
  const scratch = makeScratchDirectory(process.env['TMPDIR'] ?? '/var/tmp', 'squash-build');
  try {
    const about = await buildInto({ recipe, suite, base, work, scratch }, options);
    return { ...layerFiles(storeInCache(work, key)), about };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
    rmSync(work, { recursive: true, force: true });
  }
}

interface BuildPlace {
  readonly recipe: Recipe;
  readonly suite: Suite;
  readonly base: CachedLayer | undefined;
  /** Becomes the cache entry. */
  readonly work: string;
  readonly scratch: string;
}

async function buildInto(place: BuildPlace, options: BuildOptions): Promise<ModuleManifest> {
  const { recipe, suite, base, scratch } = place;
  const say = (text: string) => options.onProgress(recipe.name, text);
  // Midnight: all builds of a day from one state of the archive are equal.
  const day = new Date().toISOString().slice(0, 10);
  const mtimeS = Date.parse(day) / 1000;
  const full = join(scratch, 'full.tar');
  const tree = join(scratch, 'tree.tar');
  const baseTree = base === undefined ? undefined : join(scratch, 'base.tar');
  if (base !== undefined && baseTree !== undefined) {
    await pipeline(createReadStream(base.tree), createZstdDecompress(), createWriteStream(baseTree));
  }
  const from = {
    packages: recipe.packages,
    without: recipe.without ?? {},
    programs: await fetchPrograms(recipe.programs ?? {}, suite, scratch),
    ...(baseTree === undefined ? {} : { base: baseTree }),
  };
  const onProgress = say;
  await bootstrap({ suite, ...from, tar: full, workDirectory: scratch, mtimeS, onProgress }, options.signal);
  say('packing');
  writeLayerTar({ tar: full, files: filesOf(recipe, suite), mtimeS }, tree, baseTree);
  const files = layerFiles(place.work);
  await packTar(tree, files.squashfs, mtimeS);
  if (recipe.base === undefined) {
    // Level 3: the archive is only read when a layer on this base is built.
    const level = { params: { [constants.ZSTD_c_compressionLevel]: 3 } };
    await pipeline(createReadStream(tree), createZstdCompress(level), createWriteStream(files.tree));
  }
  const installed = packagesIn(full);
  const known = baseTree === undefined ? new Map<string, string>() : packagesIn(baseTree);
  const about: ModuleManifest = {
    schema: 1,
    name: moduleName(recipe, installed),
    built_at: `${day}T00:00:00Z`,
    builder,
    base: base === undefined ? null : `${base.about.name}@sha256:${base.about.squashfs_sha256}`,
    packages: [...installed]
      .filter(([name, version]) => known.get(name) !== version)
      .map((pair) => pair.join('='))
      .sort(),
    squashfs_sha256: layerDigestSchema.parse(await sha256OfFile(files.squashfs)),
  };
  writeFileSync(files.manifest, `${JSON.stringify(about, null, 2)}\n`);
  return about;
}

/** The files of the recipe and of its base: a base's host name must not come back with a layer on it. */
function filesOf(recipe: Recipe, suite: Suite): Record<string, string> {
  const inherited = recipe.base === undefined ? {} : findRecipe(recipe.base)?.files;
  return Object.fromEntries(
    Object.entries({ ...inherited, ...recipe.files }).map(([path, text]) => [
      path,
      text.replaceAll('{codename}', suite.codename),
    ]),
  );
}

function packagesIn(tar: string): ReadonlyMap<string, string> {
  return installedPackages(readFromTar(tar, dpkgStatus) ?? '');
}
