/**
 * Names that are written freely in a sandbox and brought to the host only where that is asked for: what the host's own programs run or
 * obey without being told, the next time somebody stands in that directory.
 *
 * A newcomer would look at the last part of a path alone. A repository in a repository has the same names at any depth, and what
 * lies below one of them is as good as the name itself.
 */

interface Held {
  /** Of one part of the path, in lower case. */
  readonly name: string | RegExp;
  /** Only together with the part before it. */
  readonly in?: string;
  readonly why: string;
}

const git = 'git obeys it: hooks and configuration run programs';
const editor = 'an editor runs what it says';
const agent = 'an agent obeys it';
const versions = 'version control obeys it: hooks and configuration run programs';
const interpreter = 'an interpreter runs it where it starts';
const obeyed = 'package managers obey it';
const shell = 'it runs when somebody enters the directory';
const pipeline = 'it runs where the project is built';

const held: readonly Held[] = [
  { name: '.git', why: git },
  // Bare repositories, and those of submodules.
  { name: /\.git$/, why: git },
  { name: '.githooks', why: git },
  { name: hookNames(), why: git },
  { name: '.gitmodules', why: git },
  { name: '.gitattributes', why: 'git runs filters that it names' },
  { name: '.gitconfig', why: git },
  { name: '.husky', why: git },
  { name: '.overcommit.yml', why: git },
  { name: /^\.?lefthook(?:-local)?(?:\.\w+)?$/, why: git },
  { name: /^\.pre-commit-config\.ya?ml$/, why: git },
  { name: /^\.(?:hg|jj|sl|svn|bzr)$/, why: versions },
  { name: '.vscode', why: editor },
  { name: '.idea', why: editor },
  { name: '.fleet', why: editor },
  { name: '.zed', why: editor },
  { name: '.nvim.lua', why: editor },
  { name: '.nvimrc', why: editor },
  { name: '.exrc', why: editor },
  { name: /^[._]g?vimrc$/, why: editor },
  { name: '.lvimrc', why: editor },
  { name: '.helix', why: editor },
  { name: /^\.dir-locals(?:-2)?\.el$/, why: editor },
  { name: 'hie.yaml', why: editor },
  { name: /\.code-workspace$/, why: editor },
  { name: '.devcontainer', why: editor },
  { name: '.devcontainer.json', why: editor },
  { name: '.claude', why: agent },
  { name: '.claude.json', why: agent },
  { name: 'claude.md', why: agent },
  { name: 'claude.local.md', why: agent },
  { name: /^agents?(?:\.override)?\.md$/, why: agent },
  { name: /^\.agents?$/, why: agent },
  { name: 'gemini.md', why: agent },
  { name: '.codex', why: agent },
  { name: '.gemini', why: agent },
  { name: '.cursor', why: agent },
  { name: '.cursorrules', why: agent },
  { name: '.windsurfrules', why: agent },
  { name: '.aider.conf.yml', why: agent },
  { name: '.opencode', why: agent },
  { name: /^opencode\.jsonc?$/, why: agent },
  { name: /^\.(?:windsurf|clinerules|kilocode|kiro|continue|junie|goose|goosehints|rules)$/, why: agent },
  { name: /^\.(?:amazonq|augment|augment-guidelines|trae|factory|openhands|claude-plugin)$/, why: agent },
  { name: /^\.roo(?:rules|modes)?(?:-[\w-]+)?$/, why: agent },
  { name: /^(?:\.(?:qwen|crush)|(?:qwen|crush|warp)\.md|\.?crush\.json)$/, why: agent },
  { name: 'copilot-instructions.md', why: agent },
  { name: /^(?:instructions|prompts|chatmodes|agents|skills|hooks)$/, in: '.github', why: agent },
  { name: '.mcp.json', why: agent },
  { name: '.squash', why: 'it says what sandboxes of this project may do' },
  { name: /^squash-box\.(?:toml|jsonc)$/, why: 'it says what sandboxes of this project may do' },
  { name: '.envrc', why: shell },
  { name: '.direnv', why: shell },
  { name: /^\.?(?:mise|rtx)(?:\.\w+)*\.toml$/, why: shell },
  { name: /^\.?mise$/, why: shell },
  { name: '.tool-versions', why: shell },
  { name: '.bashrc', why: shell },
  { name: /^\.bash_(?:profile|login|logout|aliases)$/, why: shell },
  { name: '.profile', why: shell },
  { name: '.zshrc', why: shell },
  { name: /^\.z(?:profile|shenv|login|logout)$/, why: shell },
  { name: '.gdbinit', why: 'a debugger runs it' },
  { name: '.lldbinit', why: 'a debugger runs it' },
  { name: /^\.pdbrc(?:\.py)?$/, why: 'a debugger runs it' },
  { name: /^\.(?:rprofile|renviron|ghci|irbrc|pryrc|octaverc)$/, why: interpreter },
  { name: '.npmrc', why: obeyed },
  { name: '.yarnrc', why: obeyed },
  { name: '.yarnrc.yml', why: obeyed },
  { name: /^\.pnp\.(?:c?js|loader\.mjs)$/, why: 'package managers run it' },
  { name: /^(?:config|plugin)$/, in: '.bundle', why: obeyed },
  { name: '.mvn', why: obeyed },
  { name: 'uv.toml', why: obeyed },
  { name: 'gradle-wrapper.properties', why: obeyed },
  { name: /^\.bazel(?:rc|iskrc)$/, why: obeyed },
  { name: 'releases', in: '.yarn', why: 'package managers run it' },
  { name: 'plugins', in: '.yarn', why: 'package managers run it' },
  { name: /^\.?pnpmfile\.[cm]?js$/, why: 'package managers run it' },
  { name: 'bunfig.toml', why: obeyed },
  { name: /^rust-toolchain(?:\.toml)?$/, why: 'cargo runs what it names' },
  { name: 'config.toml', in: '.cargo', why: 'cargo runs what it names' },
  { name: 'config', in: '.cargo', why: 'cargo runs what it names' },
  { name: 'workflows', in: '.github', why: pipeline },
  { name: 'actions', in: '.github', why: pipeline },
  { name: /^(?:workflows|actions)$/, in: '.gitea', why: pipeline },
  { name: /^(?:workflows|actions)$/, in: '.forgejo', why: pipeline },
  { name: /^\.(?:woodpecker|semaphore|builds|teamcity|tekton)$/, why: pipeline },
  { name: /^\.(?:woodpecker|cirrus|build|appveyor)\.ya?ml$/, why: pipeline },
  { name: /^(?:appveyor|bitbucket-pipelines|cloudbuild|buildspec)\.ya?ml$/, why: pipeline },
  { name: '.gitlab-ci.yml', why: pipeline },
  { name: '.circleci', why: pipeline },
  { name: '.travis.yml', why: pipeline },
  { name: /^azure-pipelines\.ya?ml$/, why: pipeline },
  { name: 'jenkinsfile', why: pipeline },
  { name: '.buildkite', why: pipeline },
  { name: /^\.drone\.(?:ya?ml|jsonnet|star)$/, why: pipeline },
];

/** Wherever they lie: `core.hooksPath` may be any directory. Those that git runs, as a set. */
function hookNames(): RegExp {
  const names = [
    'applypatch-msg',
    'commit-msg',
    'fsmonitor-watchman',
    'p4-(?:changelist|prepare-changelist|post-changelist|pre-submit)',
    'post-(?:applypatch|checkout|commit|index-change|merge|receive|rewrite|update)',
    'pre-(?:applypatch|auto-gc|commit|merge-commit|push|rebase|receive)',
    'prepare-commit-msg',
    'proc-receive',
    'push-to-checkout',
    'reference-transaction',
    'sendemail-validate',
  ];
  return new RegExp(`^(?:${names.join('|')})$`);
}

/** Without the first no directory is a repository for git; the others lead it elsewhere. */
const repositoryParts = ['head', 'gitdir', 'commondir', 'packed-refs', 'config.worktree'];

/**
 * Why this name is held back; undefined where it is not.
 * @param path below the directory, with or without a slash before it
 */
export function heldBack(path: string): string | undefined {
  // File systems that ignore case, and characters that some of them ignore: git refuses the same disguises of `.git`.
  const parts = path
    .split(/[/\\]/)
    .filter((part) => part !== '')
    .map(plain);
  for (const [at, part] of parts.entries()) {
    const found = held.find(
      ({ name, in: parent }) =>
        (typeof name === 'string' ? name === part : name.test(part)) &&
        (parent === undefined || parts[at - 1] === parent),
    );
    if (found !== undefined) return `"${part}": ${found.why}`;
  }
  const last = parts.at(-1) ?? '';
  return repositoryParts.includes(last)
    ? `"${last}": git takes a directory with it for a repository`
    : undefined;
}

function plain(part: string): string {
  return (
    part
      .normalize('NFKC')
      .replaceAll(/[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, '')
      // A stream of a file, on Windows.
      .replace(/(?<=.):.*$/s, '')
      .replace(/[ .]+$/, '')
      .toLowerCase()
      .replace(/^git~\d+$/, '.git')
      .replace(/^(?:gitmod|gi7eba)~\d+$/, '.gitmodules')
      .replace(/^(?:gitatt|gi7d29)~\d+$/, '.gitattributes')
  );
}
