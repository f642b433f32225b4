/**
 * Named lists of hosts for policies: `preset:debian` in a policy stands for the hosts below.
 *
 * Each holds what the named clients connect to and no more, because every host in a policy is also a way out. A list
 * is what its `sources` said on `date`; hosts move, so a preset that grew too small is seen in `squash egress` as
 * refusals of a client that used to work.
 */
export interface Preset {
  readonly name: string;
  /** What works with it. */
  readonly summary: string;
  readonly hosts: readonly string[];
  /** When the list was last gone over. */
  readonly date: string;
  /** Whose documents say so. */
  readonly sources: string;
}

const date = '2026-11-21';

export const presets: readonly Preset[] = [
  {
    name: 'debian',
    summary: 'apt with Debian’s main, security and update archives',
    hosts: ['deb.debian.org:80', 'deb.debian.org:443', 'security.debian.org:80', 'security.debian.org:443'],
    date,
    sources: 'sources.list(5) of Debian 12 and 13',
  },
  {
    name: 'ubuntu',
    summary: 'apt with Ubuntu’s archives and their country mirrors',
    hosts: [
      'archive.ubuntu.com:80',
      'archive.ubuntu.com:443',
      '*.archive.ubuntu.com:80',
      'security.ubuntu.com:80',
      'security.ubuntu.com:443',
      'ports.ubuntu.com:80',
    ],
    date,
    sources: 'ubuntu.sources of Ubuntu 24.04',
  },
  {
    name: 'alpine',
    summary: 'apk with Alpine’s main mirror',
    hosts: ['dl-cdn.alpinelinux.org:80', 'dl-cdn.alpinelinux.org:443'],
    date,
    sources: '/etc/apk/repositories of Alpine 3.21',
  },
  {
    name: 'npm',
    summary: 'npm, pnpm, yarn, and the headers that node-gyp fetches',
    hosts: ['registry.npmjs.org:443', 'registry.yarnpkg.com:443', 'nodejs.org:443'],
    date,
    sources: 'npm-config(7), yarn’s and node-gyp’s documents',
  },
  {
    name: 'pypi',
    summary: 'pip, uv and poetry',
    hosts: ['pypi.org:443', 'files.pythonhosted.org:443'],
    date,
    sources: 'PyPI’s simple index',
  },
  {
    name: 'crates',
    summary: 'cargo with crates.io, and rustup',
    hosts: ['crates.io:443', 'index.crates.io:443', 'static.crates.io:443', 'static.rust-lang.org:443'],
    date,
    sources: 'config.json of the index, rustup’s documents',
  },
  {
    name: 'go',
    summary: 'the go command with the public module proxy and checksum database',
    hosts: ['proxy.golang.org:443', 'sum.golang.org:443'],
    date,
    sources: 'go help environment',
  },
  {
    name: 'rubygems',
    summary: 'gem and bundler',
    hosts: ['rubygems.org:443', 'index.rubygems.org:443'],
    date,
    sources: 'RubyGems’ guides',
  },
  {
    name: 'maven',
    summary: 'maven and gradle with Maven Central',
    hosts: ['repo.maven.apache.org:443', 'repo1.maven.org:443'],
    date,
    sources: 'Maven’s super POM, Gradle’s mavenCentral()',
  },
  {
    name: 'github',
    summary: 'git over https and ssh, the API, archives, releases, LFS and packages of github.com',
    hosts: [
      'github.com:443',
      'github.com:22',
      'ssh.github.com:443',
      'api.github.com:443',
      'uploads.github.com:443',
      'codeload.github.com:443',
      'raw.githubusercontent.com:443',
      'objects.githubusercontent.com:443',
      'release-assets.githubusercontent.com:443',
      'github-cloud.s3.amazonaws.com:443',
      'ghcr.io:443',
      'pkg-containers.githubusercontent.com:443',
      'npm.pkg.github.com:443',
    ],
    date,
    sources: 'api.github.com/meta and GitHub’s documents on firewalls',
  },
  {
    name: 'gitlab',
    summary: 'git over https and ssh, API and registry of gitlab.com',
    hosts: ['gitlab.com:443', 'gitlab.com:22', 'registry.gitlab.com:443'],
    date,
    sources: 'GitLab’s documents',
  },
  {
    name: 'anthropic',
    summary: 'Anthropic’s API, and signing in with Claude Code',
    hosts: ['api.anthropic.com:443', 'claude.ai:443', 'platform.claude.com:443'],
    date,
    sources: 'the network page of Claude Code’s documents',
  },
  {
    name: 'openai',
    summary: 'OpenAI’s API, and signing in with Codex',
    hosts: ['api.openai.com:443', 'auth.openai.com:443', 'chatgpt.com:443'],
    date,
    sources: 'OpenAI’s API reference, Codex’ documents',
  },
  {
    name: 'google',
    summary: 'Gemini’s API, Vertex AI’s global endpoint, and signing in with the Gemini CLI',
    hosts: [
      'generativelanguage.googleapis.com:443',
      'aiplatform.googleapis.com:443',
      'cloudcode-pa.googleapis.com:443',
      'oauth2.googleapis.com:443',
      'accounts.google.com:443',
    ],
    date,
    sources: 'Google’s API references',
  },
  {
    name: 'mistral',
    summary: 'Mistral’s APIs',
    hosts: ['api.mistral.ai:443', 'codestral.mistral.ai:443'],
    date,
    sources: 'Mistral’s API reference',
  },
  {
    name: 'deepseek',
    summary: 'DeepSeek’s API',
    hosts: ['api.deepseek.com:443'],
    date,
    sources: 'DeepSeek’s API reference',
  },
  {
    name: 'xai',
    summary: 'xAI’s API',
    hosts: ['api.x.ai:443'],
    date,
    sources: 'xAI’s API reference',
  },
  {
    name: 'groq',
    summary: 'Groq’s API',
    hosts: ['api.groq.com:443'],
    date,
    sources: 'Groq’s API reference',
  },
  {
    name: 'cohere',
    summary: 'Cohere’s API',
    hosts: ['api.cohere.com:443'],
    date,
    sources: 'Cohere’s API reference',
  },
  {
    name: 'openrouter',
    summary: 'OpenRouter’s API',
    hosts: ['openrouter.ai:443'],
    date,
    sources: 'OpenRouter’s API reference',
  },
  {
    name: 'huggingface',
    summary: 'Hugging Face’s API, models and data sets',
    hosts: [
      'huggingface.co:443',
      'router.huggingface.co:443',
      'cdn-lfs.hf.co:443',
      'cdn-lfs-us-1.hf.co:443',
      'cdn-lfs-eu-1.hf.co:443',
      'cas-server.xethub.hf.co:443',
      'cas-bridge.xethub.hf.co:443',
      'transfer.xethub.hf.co:443',
    ],
    date,
    sources: 'huggingface_hub’s documents',
  },
];

const builtIn = new Map(presets.map((preset) => [preset.name, preset]));
let own: ReadonlyMap<string, Preset> = new Map();

/**
 * What this process knows beside the built-in ones, from now on. The one state of this package: each process says it once,
 * before it reads a policy, and whoever parses one would have to hand it through every schema else.
 */
export function useOwnPresets(list: readonly Preset[]): void {
  own = new Map(list.map((preset) => [preset.name, preset]));
}

/** Is the name one of ours? Then no operator's preset can have it. */
export function isBuiltIn(name: string): boolean {
  return builtIn.has(name);
}

export function knownPresets(): readonly Preset[] {
  return [...presets, ...own.values()];
}

export function findPreset(name: string): Preset | undefined {
  return builtIn.get(name) ?? own.get(name);
}
