/** What the sources of kind `deb` and `kernel` bring into a layer: of many packages the few files that it is made of. */
import { createHash } from 'node:crypto';
import { Failure } from '@squash/base/failure';
import { type DebianPackage, fetchPackages } from './debian-packages.ts';
import { type GuestKernel, pickKernel } from './kernel-source.ts';
import { withNeededLibraries } from './libraries.ts';
import type { DebSource, KernelSource, Preset } from './preset.ts';
import type { FetchPlace, Origin } from './source-file.ts';
import { type PlannedEntry, readForeign } from './tar/foreign.ts';

interface PackageEntries {
  readonly from: DebianPackage;
  readonly entries: readonly PlannedEntry[];
}

export class UnpackedPackages {
  readonly #preset: Preset;
  readonly #held: PackageEntries[] = [];
  #kernel: GuestKernel | undefined;

  constructor(preset: Preset) {
    this.#preset = preset;
  }

  async add(source: DebSource | KernelSource, place: FetchPlace): Promise<Origin> {
    const release = releaseOf(source, place.version);
    const packages = await fetchPackages({ ...source, release }, place);
    const from = `debian:${release}`;
    const lines = packages.map(({ name, version, sha256 }) => `${name} ${version} ${sha256}\n`);
    const digest = `sha256:${createHash('sha256').update(lines.join('')).digest('hex')}`;
    if (source.kind === 'kernel') {
      const kernel = await pickKernel(packages, source.modules, place);
      this.#kernel = kernel;
      this.#held.push(...kernel.held);
      return { version: kernel.version, from, digest };
    }
    const { strip, into, only } = source;
    const places = { strip, into, only, leaveOut: this.#preset.leave_out, keepsOwners: false };
    for (const each of packages)
      this.#held.push({ from: each, entries: readForeign({ tar: each.tar, ...places }) });
    const first = packages.find(({ name }) => source.packages[place.architecture]?.[0] === name);
    return { version: first?.version ?? '', from, digest };
  }

  /** @param others of sources of other kinds */
  finish(others: readonly PlannedEntry[]): {
    readonly entries: readonly PlannedEntry[];
    readonly packages: readonly DebianPackage[];
    readonly kernel: GuestKernel | undefined;
  } {
    const all = [...others, ...this.#held.flatMap(({ entries }) => entries)];
    const programs = this.#preset.libraries_of;
    const kept = new Set(programs === undefined ? all : withNeededLibraries(all, programs));
    const packages = this.#held
      .filter(({ entries }) => entries.some((entry) => entry.type !== 'directory' && kept.has(entry)))
      .map(({ from }) => from);
    const licences = this.#licencesOf(packages).filter(({ path }) => !has(kept, path));
    return { entries: [...kept, ...licences], packages, kernel: this.#kernel };
  }

  /** They ask to be where the package is. Some packages have a link to that of another one. */
  #licencesOf(packages: readonly DebianPackage[]): readonly PlannedEntry[] {
    const wanted = new Set(packages.map(({ name }) => `usr/share/doc/${name}`));
    const found = this.#held.flatMap(({ from }) =>
      readForeign({
        tar: from.tar,
        strip: 0,
        into: '',
        only: ['usr/share/doc'],
        leaveOut: [],
        keepsOwners: false,
      }),
    );
    const links = found.filter(({ path, type }) => type === 'symlink' && wanted.has(path));
    for (const { target } of links) wanted.add(`usr/share/doc/${target}`);
    const texts = found.filter(({ path, type }) => {
      const [, folder] = /^(.+)\/copyright$/.exec(path) ?? [];
      return type === 'file' && folder !== undefined && wanted.has(folder);
    });
    return [...links, ...texts];
  }
}

function has(entries: ReadonlySet<PlannedEntry>, path: string): boolean {
  return [...entries].some((entry) => entry.path === path);
}

function releaseOf(source: DebSource | KernelSource, asked: string | undefined): string {
  if (asked === undefined) return source.release;
  const known = source.kind === 'kernel' ? source.releases : undefined;
  if (known?.includes(asked)) return asked;
  if (known !== undefined)
    throw new Failure(
      'usage',
      `the version of this preset is the name of a Debian release whose kernel fits: ${known.join(', ')}, and not "${asked}"`,
    );
  if (/^[a-z]{3,32}(?:-[a-z]{3,32})?$/.test(asked)) return asked;
  throw new Failure(
    'usage',
    `the version of this preset is the name of a Debian release, as "${source.release}", and not "${asked}"`,
  );
}
