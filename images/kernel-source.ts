/**
 * A kernel for virtual machines out of Debian's packages: the kernel itself, and those modules that a guest loads at its start, plain
 * and numbered in the order to be loaded, so that what loads them needs neither kmod nor a decompressor.
 */
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '@squash/base/failure';
import type { DebianPackage } from './debian-packages.ts';
import { neededModules } from './elf.ts';
import { unpackedKernel } from './kernel-image.ts';
import { entryHeader } from './tar/entry-header.ts';
import { readBytes, TarWriter } from './tar/format.ts';
import { type PlannedEntry, readForeign } from './tar/foreign.ts';
import { unpack } from './unpack.ts';

export interface GuestKernel {
  /** What `uname -r` says in the guest. */
  readonly version: string;
  /** That the kernel itself is from. */
  readonly image: DebianPackage;
  /** By the packages that they are from. */
  readonly held: readonly { readonly from: DebianPackage; readonly entries: readonly PlannedEntry[] }[];
}

interface Place {
  readonly scratch: string;
  readonly signal: AbortSignal;
}

interface Found {
  readonly from: DebianPackage;
  readonly entry: PlannedEntry;
}

/** A file of the guest's, with what it was made of. */
interface Made extends Found {
  readonly path: string;
  readonly data: Buffer;
}

const imagePattern = /^(?:boot\/vmlinuz-|usr\/lib\/modules\/(?=[^/]+\/vmlinuz$))([^/]+)/;
const modulePattern = /\/kernel\/.*?([^/]+)\.ko(?:\.xz|\.gz|\.zst)?$/;
const moduleBytesMax = 67_108_864;
const asTheyAre = { strip: 0, into: '', only: undefined, leaveOut: [], keepsOwners: false } as const;

/** @param wanted names of modules; what is built into the kernel needs no file. @throws where it has one of them in neither way */
export async function pickKernel(
  packages: readonly DebianPackage[],
  wanted: readonly string[],
  place: Place,
): Promise<GuestKernel> {
  const files: readonly Found[] = packages.flatMap((from) =>
    readForeign({ tar: from.tar, ...asTheyAre })
      .filter(({ type }) => type === 'file')
      .map((entry) => ({ from, entry })),
  );
  const images = files.filter(({ entry }) => imagePattern.test(entry.path));
  const [image] = images;
  if (image === undefined || images.length > 1)
    throw new Failure('preset_wrong', `the packages hold ${images.length} kernels, and should hold one`);
  const packed = dataOf(image.entry);
  const made: readonly Made[] = [
    { ...image, path: 'boot/vmlinuz', data: packed },
    { ...image, path: 'boot/vmlinux', data: unpackedKernel(packed) },
    ...(await modulesInOrder(files, wanted, place)),
  ];
  const tar = join(place.scratch, 'kernel.tar');
  writeTar(made, tar);
  const entries = readForeign({ tar, ...asTheyAre });
  return {
    version: imagePattern.exec(image.entry.path)?.[1] ?? '',
    image: image.from,
    held: packages.map((from) => {
      const paths = new Set(made.filter((each) => each.from === from).map(({ path }) => path));
      return { from, entries: entries.filter(({ path }) => paths.has(path)) };
    }),
  };
}

/** What others need comes before them. */
async function modulesInOrder(
  files: readonly Found[],
  wanted: readonly string[],
  place: Place,
): Promise<readonly Made[]> {
  const modules = new Map<string, Found & { readonly name: string }>();
  for (const file of files) {
    const name = modulePattern.exec(file.entry.path)?.[1];
    if (name !== undefined) modules.set(plainName(name), { ...file, name });
  }
  const builtIn = builtInModules(files);
  const loaded = new Map<string, Made>();
  const load = async (name: string): Promise<void> => {
    const plain = plainName(name);
    if (loaded.has(plain) || builtIn.has(plain)) return;
    const found = modules.get(plain);
    if (found === undefined)
      throw new Failure('preset_wrong', `the kernel has no module "${name}", and not built in either`);
    const data = await plainModule(found.entry, place);
    for (const needed of neededModules(data)) await load(needed);
    const number = String(loaded.size).padStart(2, '0');
    loaded.set(plain, { ...found, path: `boot/modules/${number}-${found.name}.ko`, data });
  };
  for (const name of wanted) await load(name);
  return [...loaded.values()];
}

/** The kernel takes `-` and `_` for the same. */
function plainName(name: string): string {
  return name.replaceAll('-', '_');
}

function builtInModules(files: readonly Found[]): ReadonlySet<string> {
  const list = files.find(({ entry }) => entry.path.endsWith('/modules.builtin'));
  const lines = list === undefined ? [] : dataOf(list.entry).toString('utf8').split('\n');
  return new Set(lines.flatMap((line) => /([^/]+)\.ko$/.exec(line)?.slice(1) ?? []).map(plainName));
}

async function plainModule(entry: PlannedEntry, { scratch, signal }: Place): Promise<Buffer> {
  const archive = join(scratch, 'module');
  const plain = join(scratch, 'module.ko');
  writeFileSync(archive, dataOf(entry));
  await unpack({ archive, tar: plain, bytesMax: moduleBytesMax }, signal);
  return readFileSync(plain);
}

/** The bytes of a file of an archive. */
export function dataOf({ path, content }: PlannedEntry): Buffer {
  if (content === undefined) throw new Failure('preset_wrong', `"${path}" is no file`);
  const descriptor = openSync(content.tar, 'r');
  try {
    return readBytes(descriptor, content.entry.dataOffset, content.entry.size);
  } finally {
    closeSync(descriptor);
  }
}

function writeTar(made: readonly Made[], tar: string): void {
  const descriptor = openSync(tar, 'w');
  try {
    const writer = new TarWriter(descriptor);
    for (const { entry, path, data } of made)
      writer.own(entryHeader({ ...entry, path, size: data.length, mode: 0o644 }), data);
    writer.end();
  } finally {
    closeSync(descriptor);
  }
}
