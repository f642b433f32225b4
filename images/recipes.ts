/**
 * What the layers are made of: names of Debian packages and a few files. Everything else is the same for all.
 *
 * A layer on a base holds what installing its packages adds to the base, the package database included. Two
 * such layers stacked on one another both work, but dpkg inside then only knows the packages of the upper one:
 * its database is one file. `docs/layers.md` says so.
 */
import { Failure } from '@squash/base/failure';
import { interpreter } from './interpreter/recipe.ts';

export interface Recipe {
  readonly name: string;
  /** Three digits: where the layer stands in a stack. */
  readonly prefix: string;
  /** The name of the module without its prefix; `{version}` is taken from `versionedBy`. */
  readonly module: string;
  /** The package whose version names the module; the pattern's groups are what `{version}` becomes. */
  readonly versionedBy?: { readonly package: string; readonly pattern: RegExp };
  readonly base?: string;
  readonly packages: readonly string[];
  /**
   * Packages that others depend on and nothing here needs, with the version that the dependency asks for: apt is told that
   * they are installed. To install one later brings the real one.
   */
  readonly without?: Readonly<Record<string, string>>;
  /** Programs of npm packages, by their path in the layer. */
  readonly programs?: Readonly<Record<string, NpmProgram>>;
  /** Written over what the packages bring; `{codename}` becomes the release's name. */
  readonly files: Readonly<Record<string, string>>;
  readonly summary: string;
}

/** One file of an npm package, which has another name for each architecture. */
export interface NpmProgram {
  readonly file: string;
  readonly version: string;
  readonly packages: Readonly<Record<string, { readonly name: string; readonly integrity: string }>>;
}

/**
 * Files of a base that must not tell of the machine it was built on. The driver writes its own hosts and
 * resolv.conf over them when a sandbox starts; they are here because a mount needs something to be mounted on.
 */
const baseFiles = {
  'etc/apt/sources.list': [
    'deb http://deb.debian.org/debian {codename} main',
    'deb http://deb.debian.org/debian {codename}-updates main',
    'deb http://deb.debian.org/debian-security {codename}-security main',
    '',
  ].join('\n'),
  'etc/hostname': 'sandbox\n',
  'etc/hosts': '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n',
  'etc/resolv.conf': '',
  'etc/machine-id': '',
};

export const recipes: readonly Recipe[] = [
  {
    name: 'debian',
    prefix: '000',
    module: 'base-debian',
    packages: [
      'ca-certificates',
      'curl',
      'less',
      'netbase',
      'procps',
      'unzip',
      'usr-is-merged',
      'xz-utils',
      'zstd',
    ],
    files: baseFiles,
    summary: 'Debian base: bash, coreutils, apt, curl, certificates, ps, tar, xz, zstd, unzip',
  },
  {
    name: 'python',
    prefix: '100',
    module: 'python{version}',
    versionedBy: { package: 'python3', pattern: /^(\d+)\.(\d+)/ },
    base: 'debian',
    packages: ['python3', 'python3-pip', 'python3-venv'],
    // A sandbox is thrown away: Debian's warning not to install beside its own packages has no point here.
    files: { 'etc/pip.conf': '[global]\nbreak-system-packages = true\n' },
    summary: 'Python 3 with ssl, sqlite3, pip and venv',
  },
  {
    name: 'git',
    prefix: '110',
    module: 'git',
    base: 'debian',
    packages: ['git', 'openssh-client', 'patch'],
    files: {},
    summary: 'git, ssh, patch (brings Perl)',
  },
  {
    name: 'nodejs',
    prefix: '101',
    module: 'nodejs{version}',
    versionedBy: { package: 'nodejs', pattern: /^(\d+)/ },
    base: 'debian',
    packages: ['nodejs'],
    files: {},
    summary: 'Node.js as Debian packages it',
  },
  {
    name: 'build',
    prefix: '111',
    module: 'build',
    base: 'debian',
    packages: ['build-essential', 'pkg-config'],
    files: {},
    summary: 'gcc, g++, make, pkg-config',
  },
  interpreter,
];

export function findRecipe(name: string): Recipe | undefined {
  return recipes.find((recipe) => recipe.name === name);
}

/** @throws when the package is not among the installed ones: the recipe and its packages disagree */
export function moduleName(recipe: Recipe, installed: ReadonlyMap<string, string>): string {
  const { versionedBy } = recipe;
  if (versionedBy === undefined) return `${recipe.prefix}-${recipe.module}`;
  const version = installed.get(versionedBy.package)?.replace(/^\d+:/, '');
  const groups = version === undefined ? null : versionedBy.pattern.exec(version);
  if (groups === null) {
    throw new Failure(
      'recipe_wrong',
      `recipe "${recipe.name}": package ${versionedBy.package} has no usable version`,
    );
  }
  return `${recipe.prefix}-${recipe.module.replace('{version}', groups.slice(1).join(''))}`;
}
