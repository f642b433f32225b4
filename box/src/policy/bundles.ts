/**
 * What `extends: ["builtin:…"]` stands for, as policies of the same form, and where package managers keep what they have
 * downloaded.
 *
 * What a newcomer would get wrong: a cache is opened by the directory that holds packages and nothing else. Beside it lie
 * logins: `~/.npmrc`, `~/.cargo/credentials.toml`, `~/.m2/settings.xml`. Each host in a bundle is also a way out.
 */
import type { PathLevel } from '@squash/contract/path-levels';

interface Bundle {
  readonly summary: string;
  readonly fs?: Readonly<Record<string, PathLevel>>;
  readonly net?: readonly string[];
  readonly env?: readonly string[];
  readonly caches?: Readonly<Partial<Record<CacheName, CacheMode>>>;
}

export const cacheModes = ['cow', 'private'] as const;
export type CacheMode = (typeof cacheModes)[number];

/** Directories of downloaded packages, read by their contents' hashes or checked against them by their tools. */
export const cachePaths = {
  npm: ['~/.npm/_cacache'],
  pnpm: ['~/.local/share/pnpm/store', '~/.cache/pnpm'],
  yarn: ['~/.cache/yarn', '~/.yarn/berry/cache'],
  pip: ['~/.cache/pip'],
  uv: ['~/.cache/uv'],
  cargo: ['~/.cargo/registry', '~/.cargo/git'],
  go: ['~/go/pkg/mod', '~/.cache/go-build'],
  maven: ['~/.m2/repository'],
} as const satisfies Readonly<Record<string, readonly string[]>>;
export type CacheName = keyof typeof cachePaths;

/** These are often not there: nobody has every package manager. */
export const isCachePath = (written: string): boolean =>
  Object.values<readonly string[]>(cachePaths).some((paths) => paths.includes(written));

/**
 * What a manager is told in the box. pnpm puts its store into the repository where it can't link from its own directory to the
 * repository, and in a box these are two file systems. Up to release 10 it reads the first file, from 11 on the second.
 */
export const cacheSettings: Readonly<Partial<Record<CacheName, Readonly<Record<string, string>>>>> = {
  pnpm: {
    '~/.config/pnpm/rc': 'store-dir=~/.local/share/pnpm/store\n',
    '~/.config/pnpm/config.yaml': 'storeDir: ~/.local/share/pnpm/store\n',
  },
};

/** Whoever says `caches` says no text of his own. */
export const isCacheSetting = (written: string, text: string | undefined): boolean =>
  Object.values(cacheSettings).some((texts) => text !== undefined && texts?.[written] === text);

export const cacheNames = Object.keys(cachePaths) as readonly CacheName[];

export const bundleNames = ['agent', 'node', 'python', 'rust', 'go'] as const;
export type BundleName = (typeof bundleNames)[number];

export const bundles: Readonly<Record<BundleName, Bundle>> = {
  agent: {
    summary:
      'coding agents: their settings to read and change in the box, without their logins; their models’ hosts',
    fs: {
      '~/.claude': 'cow',
      '~/.claude/.credentials.json': 'hidden',
      '~/.codex': 'cow',
      '~/.codex/auth.json': 'hidden',
      '~/.gemini': 'cow',
      '~/.gemini/oauth_creds.json': 'hidden',
      '~/.config/opencode': 'cow',
      '~/.gitconfig': 'ro',
      '~/.config/git': 'ro',
      '~/.config/git/credentials': 'hidden',
    },
    net: ['preset:anthropic', 'preset:openai', 'preset:google'],
    env: ['EDITOR', 'VISUAL', 'PAGER'],
  },
  node: {
    summary: 'Node.js of version managers, the caches of npm, pnpm and yarn, the npm registry',
    fs: {
      '~/.nvm': 'ro',
      '~/.volta': 'ro',
      '~/.local/share/fnm': 'ro',
      '~/.bun/bin': 'ro',
      '~/.cache/node': 'cow',
    },
    net: ['preset:npm'],
    env: ['NODE_ENV'],
    caches: { npm: 'cow', pnpm: 'cow', yarn: 'cow' },
  },
  python: {
    summary: 'Pythons of pyenv and uv, the caches of pip and uv, PyPI',
    fs: { '~/.pyenv': 'ro', '~/.local/share/uv': 'ro' },
    net: ['preset:pypi'],
    caches: { pip: 'cow', uv: 'cow' },
  },
  rust: {
    summary: 'rustup’s toolchains, cargo’s programs and its cache, crates.io',
    fs: { '~/.rustup': 'ro', '~/.cargo/bin': 'ro', '~/.cargo/env': 'ro' },
    net: ['preset:crates'],
    caches: { cargo: 'cow' },
  },
  go: {
    summary: 'Go’s toolchains and programs, its caches, the public module proxy',
    fs: { '~/sdk': 'ro', '~/go/bin': 'ro', '~/.local/go': 'ro' },
    net: ['preset:go'],
    caches: { go: 'cow' },
  },
};
