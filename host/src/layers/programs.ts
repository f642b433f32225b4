/**
 * What the programs of a layer need to run: C library and processor, which the loader that they name (ELF's PT_INTERP) tells; and what
 * the layer has of that itself.
 *
 * A sample, not a proof: programs in the usual directories are looked at, so many at most, and what most of them name counts.
 * Layout: elf(5). Nothing here trusts the tree: see `base/src/open-below.ts`.
 */
import { readSync } from 'node:fs';
import { filesBelow, namesBelow } from '@squash/base/open-below';

export interface Programs {
  /** As `glibc (x86_64)`; null: its programs need none, or none that is known. */
  readonly needs: string | null;
  readonly libc: Libc | null;
  readonly architecture: string | null;
  /** In the words of `needs`. */
  readonly has: readonly string[];
}

type Libc = 'glibc' | 'musl';

/** The loaders of the machines that Squash runs on. */
const known: Readonly<Record<string, { readonly libc: Libc; readonly architecture: string }>> = {
  'ld-linux-x86-64.so.2': { libc: 'glibc', architecture: 'x86_64' },
  'ld-linux-aarch64.so.1': { libc: 'glibc', architecture: 'aarch64' },
  'ld-musl-x86_64.so.1': { libc: 'musl', architecture: 'x86_64' },
  'ld-musl-aarch64.so.1': { libc: 'musl', architecture: 'aarch64' },
};
/** `lib` is a link into `usr` on most systems, and the tree of each layer has its own part of it. */
const loaderPlaces = ['lib', 'lib64', 'usr/lib', 'usr/lib64'];
const programPlaces = ['bin', 'sbin', 'usr/bin', 'usr/sbin', 'usr/local/bin', 'usr/local/sbin'];
/** Each holds trees with a `bin` of their own, as `/usr/local/go`. */
const packagePlaces = ['opt', 'usr/local'];

/** Of one directory. */
const namesMax = 128;
const programsEnough = 16;
const packagesMax = 32;
/** A directory of libraries has thousands. */
const loaderNamesMax = 4_096;
const headBytes = 4_096;
const machines: Readonly<Record<number, string>> = { 62: 'x86_64', 183: 'aarch64' };

export const noPrograms: Programs = { needs: null, libc: null, architecture: null, has: [] };

/** @param root of an unpacked tree */
export function programsOf(root: string): Programs {
  // A link counts: where it leads depends on the whole stack.
  const libraries = new Set(loaderPlaces.flatMap((place) => namesBelow(root, place, loaderNamesMax)));
  const loaders = Object.keys(known).filter((name) => libraries.has(name));
  const places = [...programPlaces, ...packagesOf(root)];
  const programs: Program[] = [];
  for (const place of places) {
    if (programs.length < programsEnough)
      programs.push(...filesBelow(root, place, { max: namesMax, use: readProgram }));
  }
  const loader = mostOf(programs.flatMap((each) => each.loader ?? []));
  return {
    needs: loader === null ? null : textOf(loader),
    libc: loader === null ? null : (known[loader]?.libc ?? null),
    architecture: mostOf(programs.map((each) => each.architecture)),
    has: loaders.map(textOf),
  };
}

function textOf(loader: string): string {
  return `${known[loader]?.libc} (${known[loader]?.architecture})`;
}

function packagesOf(root: string): readonly string[] {
  return packagePlaces.flatMap((place) =>
    namesBelow(root, place, packagesMax).map((name) => `${place}/${name}/bin`),
  );
}

interface Program {
  /** Null: it is linked statically. */
  readonly loader: string | null;
  readonly architecture: string;
}

/** Undefined for a script, a library, and a program of another kind of machine. */
function readProgram(fd: number): Program | undefined {
  const head = bytesAt(fd, 0, headBytes);
  // 64 bits, little-endian: the machines that Squash runs on.
  if (head.length < 64 || head.readUInt32BE(0) !== 0x7f454c46 || head[4] !== 2 || head[5] !== 1)
    return undefined;
  const architecture = machines[head.readUInt16LE(18)];
  const start = Number(head.readBigUInt64LE(32));
  const [size, count] = [head.readUInt16LE(54), head.readUInt16LE(56)];
  if (architecture === undefined || size < 56) return undefined;
  for (let at = start; at < start + count * size && at + 56 <= head.length; at += size) {
    if (head.readUInt32LE(at) !== 3) continue;
    const [offset, length] = [head.readBigUInt64LE(at + 8), head.readBigUInt64LE(at + 32)];
    return { architecture, loader: readName(fd, Number(offset), Number(length)) };
  }
  return { architecture, loader: null };
}

function readName(fd: number, offset: number, length: number): string | null {
  if (length < 2 || length > 256 || !Number.isSafeInteger(offset)) return null;
  const path = bytesAt(fd, offset, length).toString('latin1').split('\0')[0] ?? '';
  const name = path.split('/').at(-1) ?? '';
  return Object.hasOwn(known, name) ? name : null;
}

function bytesAt(fd: number, offset: number, length: number): Buffer {
  const buffer = Buffer.alloc(length);
  return buffer.subarray(0, readSync(fd, buffer, 0, length, offset));
}

function mostOf(words: readonly string[]): string | null {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  const [most] = [...counts].sort(([one, a], [other, b]) => b - a || (one < other ? -1 : 1));
  return most?.[0] ?? null;
}
