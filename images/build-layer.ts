/**
 * Builds one layer from its preset, the layer below it first. Finished builds come from the cache.
 *
 * The layer on a base is the difference between two trees: the base's, and the same tree with the packages
 * installed into it. So it fits exactly the base it was built on, which its manifest names. A layer without Debian packages
 * is what its archives hold, and stands by itself.
 */
import { createReadStream, createWriteStream, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { Failure } from '@squash/base/failure';
import { makeScratchDirectory } from '@squash/base/scratch-directory';
import type { ModuleManifest } from '@squash/contract/module-manifest';
import { layerDigestSchema } from '@squash/contract/ids';
import { aboutGuest } from './about-guest.ts';
import { bootstrap, dpkgStatus, hostSuite, installedPackages, type Suite } from './bootstrap.ts';
import {
  type CachedLayer,
  cacheKey,
  findCached,
  layerFiles,
  makeWorkDirectory,
  storeInCache,
} from './cache.ts';
import { packTar, sha256OfFile } from './pack.ts';
import { debianSourceOf, moduleName } from './preset.ts';
import { findPreset, type FoundPreset } from './preset-files.ts';
import type { ByteProgress } from './source-file.ts';
import { type Brought, bringSources } from './sources.ts';
import { composeTar } from './tar/compose.ts';
import { readFromTar, writeLayerTar } from './tar/difference.ts';

export const builder = 'squash 0.1.0';

interface BuildOptions {
  /** Builds again what is in the cache: for newer packages. */
  readonly fresh: boolean;
  /** Instead of the preset's own: of an archive or npm package, or the name of a Debian release. */
  readonly version?: string | undefined;
  readonly onProgress: (layer: string, text: string, bytes?: ByteProgress) => void;
  readonly signal: AbortSignal;
}

export async function buildLayer(found: FoundPreset, options: BuildOptions): Promise<CachedLayer> {
  const { preset } = found;
  const suite = suiteOf(found, options.version);
  const baseFound = preset.base === undefined ? undefined : findPreset(preset.base);
  const base =
    baseFound === undefined ? undefined : await buildLayer(baseFound, { ...options, fresh: false });
  const key = cacheKey(found, { suite, version: options.version, base });
  const cached = options.fresh ? undefined : findCached(key);
  if (cached !== undefined) return cached;
  const work = makeWorkDirectory();
  // Not in the home directory: the tree belongs to other ids, which must be able to reach it.
  const scratch = makeScratchDirectory(process.env['TMPDIR'] ?? '/var/tmp', 'squash-build');
  try {
    const about = await buildInto({ found, baseFound, suite, base, work, scratch }, options);
    options.signal.throwIfAborted();
    return { ...layerFiles(storeInCache(work, key)), about };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
    rmSync(work, { recursive: true, force: true });
  }
}

/** Of Debian packages the version is the release that they are taken from. */
function suiteOf({ preset }: FoundPreset, version: string | undefined): Suite {
  const suite = hostSuite();
  if (debianSourceOf(preset) === undefined || version === undefined) return suite;
  if (/^[a-z]{3,32}$/.test(version)) return { ...suite, codename: version };
  throw new Failure(
    'usage',
    `preset "${preset.name}" is of Debian packages: its version is the name of a Debian release, as "${suite.codename}", and not "${version}"`,
  );
}

interface BuildPlace {
  readonly found: FoundPreset;
  readonly baseFound: FoundPreset | undefined;
  readonly suite: Suite;
  readonly base: CachedLayer | undefined;
  /** Becomes the cache entry. */
  readonly work: string;
  readonly scratch: string;
}

/** A tree that is ready to be packed, and what is known of it. */
interface Tree {
  readonly tar: string;
  readonly mtimeS: number;
  /** By package; what is new on the base. */
  readonly packages: ReadonlyMap<string, string>;
  readonly versions: ReadonlyMap<string, string>;
}

async function buildInto(place: BuildPlace, options: BuildOptions): Promise<ModuleManifest> {
  const { preset } = place.found;
  const say = (text: string, bytes?: ByteProgress) => options.onProgress(preset.name, text, bytes);
  const isDebian = debianSourceOf(preset) !== undefined;
  const { architecture } = place.suite;
  // Of Debian packages it is the release.
  const version = isDebian ? undefined : options.version;
  const asked = { architecture, version, scratch: place.scratch, onProgress: say };
  const brought = await bringSources(preset, asked, options.signal);
  // Midnight: all builds of a day from one state of the archive are equal.
  const day = new Date().toISOString().slice(0, 10);
  const tree = isDebian
    ? await debianTree(place, { brought, mtimeS: Date.parse(day) / 1000, say }, options.signal)
    : archiveTree(place, brought);
  say('packing');
  const files = layerFiles(place.work);
  await packTar(tree.tar, files.squashfs, tree.mtimeS);
  checkSize(place.found, files.squashfs);
  if (isDebian && preset.base === undefined) {
    // Level 3: the archive is only read when a layer on this base is built.
    const level = { params: { [constants.ZSTD_c_compressionLevel]: 3 } };
    await pipeline(createReadStream(tree.tar), createZstdCompress(level), createWriteStream(files.tree));
  }
  const { base } = place;
  const about: ModuleManifest = {
    schema: 1,
    name: moduleName(preset, tree.versions),
    built_at: `${day}T00:00:00Z`,
    builder,
    base: base === undefined ? null : `${base.about.name}@sha256:${base.about.squashfs_sha256}`,
    packages: [...tree.packages].map((pair) => pair.join('=')).sort(),
    squashfs_sha256: layerDigestSchema.parse(await sha256OfFile(files.squashfs)),
    provenance: provenanceOf(place, brought),
  };
  writeFileSync(files.manifest, `${JSON.stringify(about, null, 2)}\n`);
  return about;
}

async function debianTree(
  place: BuildPlace,
  made: {
    readonly brought: Brought;
    readonly mtimeS: number;
    readonly say: (text: string) => void;
  },
  signal: AbortSignal,
): Promise<Tree> {
  const { found, suite, base, scratch } = place;
  const { brought, mtimeS } = made;
  const { packages = [], without = {} } = debianSourceOf(found.preset) ?? {};
  const installed = join(scratch, 'full.tar');
  const tar = join(scratch, 'tree.tar');
  const baseTree = base === undefined ? undefined : join(scratch, 'base.tar');
  if (base !== undefined && baseTree !== undefined) {
    await pipeline(createReadStream(base.tree), createZstdDecompress(), createWriteStream(baseTree));
  }
  const from = { packages, without, ...(baseTree === undefined ? {} : { base: baseTree }) };
  const onProgress = made.say;
  await bootstrap({ suite, ...from, tar: installed, workDirectory: scratch, mtimeS, onProgress }, signal);
  const full = withBrought(place, { tree: installed, brought, mtimeS });
  writeLayerTar({ tar: full, files: filesOf(place), mtimeS }, tar, baseTree);
  const all = packagesIn(full);
  const known = baseTree === undefined ? new Map<string, string>() : packagesIn(baseTree);
  const added = new Map([...all].filter(([name, version]) => known.get(name) !== version));
  return { tar, mtimeS, packages: added, versions: all };
}

/** What Debian's packages made, with what other sources bring over it. */
function withBrought(
  { found, scratch }: BuildPlace,
  from: { readonly tree: string; readonly brought: Brought; readonly mtimeS: number },
): string {
  const { tree, brought, mtimeS } = from;
  const { links, directories = [], executables } = found.preset;
  const isPlain = Object.keys(links).length === 0 && directories.length === 0;
  if (brought.files.length === 0 && isPlain) return tree;
  const full = join(scratch, 'composed.tar');
  composeTar({ tree, entries: brought.entries, files: {}, links, directories, executables, mtimeS }, full);
  return full;
}

/** Its times are the archives' own: the same archives give the same layer on any day. */
function archiveTree(place: BuildPlace, brought: Brought): Tree {
  const { entries, files, packages } = brought;
  const { links, executables, directories } = place.found.preset;
  const tar = join(place.scratch, 'tree.tar');
  const mtimeS = entries.reduce((latest, each) => Math.max(latest, each.mtimeS), 0);
  const version = files[0]?.version ?? '';
  composeTar(
    {
      entries,
      files: { ...filesOf(place, version), ...aboutGuest(brought) },
      links,
      directories,
      executables,
      mtimeS: Math.min(mtimeS, Date.now() / 1_000),
    },
    tar,
  );
  const names = new Map(packages.map((each) => [each.name, each.version]));
  return { tar, mtimeS, packages: names, versions: new Map([['', version]]) };
}

/** The files of the preset and of its base: a base's host name must not come back with a layer on it. */
function filesOf({ found, baseFound, suite }: BuildPlace, version = ''): Record<string, string> {
  return Object.fromEntries(
    Object.entries({ ...baseFound?.files, ...found.files }).map(([path, text]) => [
      path,
      text.replaceAll('{codename}', suite.codename).replaceAll('{version}', version),
    ]),
  );
}

function checkSize({ preset, path }: FoundPreset, squashfs: string): void {
  const bytesMax = Math.max(4 * preset.size.squashfs_mb, 16) * 1_048_576;
  const { size } = statSync(squashfs);
  if (size > bytesMax)
    throw new Failure(
      'layer_too_large',
      `the layer has ${size} bytes, and preset "${path}" expects ${preset.size.squashfs_mb} MB ("size.squashfs_mb")`,
    );
}

function provenanceOf({ found, suite }: BuildPlace, { files }: Brought): Record<string, string> {
  const { name, licence } = found.preset;
  const sources = files.flatMap(({ from, version, digest }, index) => {
    const nth = index === 0 ? '' : `_${index + 1}`;
    return [
      [`source${nth}`, from],
      [`version${nth}`, version],
      [`digest${nth}`, digest],
    ];
  });
  const release = debianSourceOf(found.preset) === undefined ? {} : { release: suite.codename };
  return { preset: name, licence, ...release, ...Object.fromEntries(sources) };
}

function packagesIn(tar: string): ReadonlyMap<string, string> {
  return installedPackages(readFromTar(tar, dpkgStatus) ?? '');
}
