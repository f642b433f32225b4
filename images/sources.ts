/** What a preset's archives and packages bring: fetched, checked, unpacked, and read as entries of the layer. */
import { createReadStream, createWriteStream, mkdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fetchArchive } from './archive-source.ts';
import { fetchNpmPackage } from './npm-source.ts';
import { fetchApk } from './apk-source.ts';
import type { Architecture, Preset, Source } from './preset.ts';
import type { DebianPackage } from './debian-packages.ts';
import type { GuestKernel } from './kernel-source.ts';
import type { ByteProgress, FetchPlace, Origin, SourceFile } from './source-file.ts';
import { UnpackedPackages } from './unpacked-packages.ts';
import { entryHeader } from './tar/entry-header.ts';
import { type PlannedEntry, readForeign } from './tar/foreign.ts';
import { unpack } from './unpack.ts';

const megabyte = 1_048_576;
/** Small presets vary more. */
const downloadBytesMin = 16 * megabyte;

type FetchedSource = Exclude<Source, { readonly kind: 'debian' | 'deb' | 'kernel' }>;

export interface Brought {
  readonly entries: readonly PlannedEntry[];
  readonly files: readonly Origin[];
  /** Of Debian, that something of the layer is from. */
  readonly packages: readonly DebianPackage[];
  readonly kernel: GuestKernel | undefined;
}

export interface BringPlace {
  readonly architecture: Architecture;
  readonly version: string | undefined;
  readonly scratch: string;
  readonly onProgress: (text: string, bytes?: ByteProgress) => void;
}

export async function bringSources(preset: Preset, place: BringPlace, signal: AbortSignal): Promise<Brought> {
  const entries: PlannedEntry[] = [];
  const files: Origin[] = [];
  const unpacked = new UnpackedPackages(preset);
  const bytesMax = 4 * preset.size.unpacked_mb * megabyte + downloadBytesMin;
  let bytes = 0;
  for (const [index, source] of preset.sources.entries()) {
    if (source.kind === 'debian') continue;
    const scratch = join(place.scratch, `source-${index}`);
    mkdirSync(scratch);
    // A version that was asked for is that of the first; the others belong to it.
    const fetching = {
      ...place,
      scratch,
      version: files.length === 0 ? place.version : undefined,
      bytesMax: 4 * preset.size.squashfs_mb * megabyte + downloadBytesMin,
      signal,
    };
    if (source.kind === 'deb' || source.kind === 'kernel') {
      files.push(await unpacked.add(source, fetching));
      continue;
    }
    const fetched = await fetchSource(source, fetching);
    files.push(fetched);
    const tar = join(scratch, 'plain.tar');
    place.onProgress('unpacking');
    if (source.kind === 'archive' && source.format === 'program')
      await wrapProgram(fetched.file, basename(source.into), tar);
    else await unpack({ archive: fetched.file, tar, bytesMax: bytesMax - bytes }, signal);
    rmSync(fetched.file);
    bytes += statSync(tar).size;
    entries.push(...readForeign({ tar, ...places(source, preset) }));
  }
  return { files, ...unpacked.finish(entries) };
}

function fetchSource(source: FetchedSource, place: FetchPlace): Promise<SourceFile> {
  switch (source.kind) {
    case 'npm':
      return fetchNpmPackage(source, place);
    case 'apk':
      return fetchApk(source, place);
    case 'archive':
      return fetchArchive(source, place);
  }
}

function places(source: FetchedSource, preset: Preset): Omit<Parameters<typeof readForeign>[0], 'tar'> {
  const isProgram = source.kind === 'archive' && source.format === 'program';
  return {
    strip: isProgram ? 0 : source.strip,
    // The one entry of a program has the last word of its place as its name.
    into: isProgram ? dirname(source.into).replace(/^\.$/, '') : source.into,
    only: source.only,
    leaveOut: preset.leave_out,
    keepsOwners: source.kind === 'archive' && source.owners === 'archive',
  };
}

/** A program that comes without an archive, as the one entry of one. */
async function wrapProgram(program: string, name: string, tar: string): Promise<void> {
  const size = statSync(program).size;
  const header = entryHeader({
    path: name,
    type: 'file',
    mode: 0o755,
    uid: 0,
    gid: 0,
    size,
    // Nobody has said when it was made.
    mtimeS: 0,
    target: '',
    attributes: [],
  });
  const end = Buffer.alloc(((512 - (size % 512)) % 512) + 1_024);
  await pipeline(async function* parts() {
    yield header;
    yield* createReadStream(program);
    yield end;
  }, createWriteStream(tar));
}
