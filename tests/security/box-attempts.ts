/**
 * What a box writes to get at its host when that is brought there, each in a directory of its own below the one that it has.
 *
 * `host` lays the ground, `box` is a script in the same directory inside, and `won` says whether the attacker got what he wanted: after
 * a careless copy he has to, after an apply he must not.
 */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { git } from './box-host.ts';

export interface Ground {
  /** The directory of this attempt. */
  readonly here: string;
  /** Made where a program of the attacker ran on the host. */
  readonly mark: string;
}

export interface BoxAttempt {
  readonly host?: (ground: Ground) => void;
  readonly box: (mark: string) => string;
  readonly won: (ground: Ground) => boolean;
  /** Hidden from the box. */
  readonly hide?: string;
}

function put(path: string, text: string, mode = 0o644): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { mode });
}

const repository = ({ here }: Ground): void => {
  execFileSync('git', ['init', '-q', here]);
  put(join(here, 'file'), 'as it was\n');
  git(here, 'add', '.');
  git(here, 'commit', '-qm', 'first');
};

/** Somebody looks at the repository and commits to it. */
const runsIn =
  (below = '.') =>
  ({ here, mark }: Ground): boolean => {
    const directory = join(here, below);
    if (!existsSync(directory)) return false;
    for (const words of [
      ['status'],
      ['add', '.'],
      ['commit', '--allow-empty', '-qm', 'x'],
      ['checkout', '-q', '-b', 'other'],
    ])
      git(directory, ...words);
    return existsSync(mark);
  };

const has =
  (...names: readonly string[]) =>
  ({ here }: Ground): boolean =>
    names.some((name) => lstatSync(join(here, name), { throwIfNoEntry: false }) !== undefined);

const leadsOut =
  (name: string) =>
  ({ here }: Ground): boolean => {
    try {
      return !`${realpathSync.native(join(here, name))}/`.startsWith(
        `${realpathSync.native(join(here, '..'))}/`,
      );
    } catch {
      return false;
    }
  };

const fake = (directory: string, mark: string, more = ''): string =>
  `mkdir -p ${directory}/objects ${directory}/refs/heads; echo ref: refs/heads/main > ${directory}/HEAD;` +
  `printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = touch ${mark}; false\\n${more}' > ${directory}/config`;

const asWorktree = 'bare = false\\nworktree = .\\n';
const hook = (path: string, mark: string): string =>
  `mkdir -p $(dirname ${path}); printf '#!/bin/sh\\ntouch ${mark}\\n' > ${path}; chmod +x ${path}`;

const ofGit: Readonly<Record<string, BoxAttempt>> = {
  configuration: {
    host: repository,
    box: (mark) => `git config core.fsmonitor 'touch ${mark}; false'`,
    won: runsIn(),
  },
  'configuration of a worktree': {
    host: (ground) => {
      repository(ground);
      git(ground.here, 'config', 'extensions.worktreeConfig', 'true');
    },
    box: (mark) => `printf '[core]\\nfsmonitor = touch ${mark}; false\\n' > .git/config.worktree`,
    won: runsIn(),
  },
  hook: { host: repository, box: (mark) => hook('.git/hooks/post-checkout', mark), won: runsIn() },
  'hooks in a directory that the configuration names': {
    host: (ground) => {
      repository(ground);
      git(ground.here, 'config', 'core.hooksPath', 'tools/checks');
    },
    box: (mark) => hook('tools/checks/pre-commit', mark),
    won: runsIn(),
  },
  '.git as a file': {
    box: (mark) => `${fake('evil', mark, asWorktree)}; mkdir sub; echo gitdir: ../evil > sub/.git`,
    won: runsIn('sub'),
  },
  commondir: {
    host: repository,
    box: (mark) => `${fake('evil', mark)}; echo ../evil > .git/commondir`,
    won: runsIn(),
  },
  'filter that attributes name': {
    host: (ground) => {
      repository(ground);
      git(ground.here, 'config', 'filter.tidy.clean', 'sh ./tidy.sh');
    },
    box: (mark) => `echo '* filter=tidy' > .gitattributes; printf 'touch ${mark}; cat\\n' > tidy.sh`,
    won: runsIn(),
  },
  'a submodule’s configuration': {
    host: (ground) => {
      repository(ground);
      mkdirSync(join(ground.here, '.git/modules'));
      execFileSync('git', [
        'init',
        '-q',
        '--separate-git-dir',
        join(ground.here, '.git/modules/sub'),
        join(ground.here, 'sub'),
      ]);
      put(join(ground.here, 'sub/.git'), 'gitdir: ../.git/modules/sub\n');
    },
    box: (mark) => `git config -f .git/modules/sub/config core.fsmonitor 'touch ${mark}; false'`,
    won: runsIn('sub'),
  },
  'a list of submodules': {
    host: repository,
    box: () => `printf '[submodule "x"]\\npath = x\\nurl = ext::sh\\n' > .gitmodules`,
    won: has('.gitmodules'),
  },
  'a repository in it': {
    box: (mark) => `git init -q sub; cd sub; git config core.fsmonitor 'touch ${mark}; false'`,
    won: runsIn('sub'),
  },
  'a bare repository': { box: (mark) => fake('assets', mark, asWorktree), won: runsIn('assets') },
  'a bare repository with a name': {
    box: (mark) => fake('assets.git', mark, asWorktree),
    won: runsIn('assets.git'),
  },
  'a bare repository that the host has as a fixture': {
    host: ({ here }) => {
      execFileSync('git', ['init', '-q', '--bare', join(here, 'fixture')]);
    },
    box: (mark) => fake('fixture', mark, asWorktree),
    won: runsIn('fixture'),
  },
  'a directory with a HEAD becomes a repository': {
    host: ({ here }) => put(join(here, 'half/HEAD'), 'ref: refs/heads/main\n'),
    box: (mark) => `${fake('half', mark, asWorktree)}; touch half/objects/x half/refs/x`,
    won: runsIn('half'),
  },
  'hook of a hook manager': { box: (mark) => hook('.husky/pre-commit', mark), won: has('.husky/pre-commit') },
  'attributes beside the repository’s own': {
    host: repository,
    box: () => `mkdir -p .git/info; echo '* filter=x' > .git/info/attributes`,
    won: has('.git/info/attributes'),
  },
};

/** On file systems that ignore case, or characters, these are `.git`. */
const disguises: readonly string[] = [
  '.GIT',
  '.Git',
  '.g\u200Cit',
  '.gi\u2060t',
  'git~1',
  '.git ',
  '.git.',
  '.git::$INDEX_ALLOCATION',
  '．git',
];

const disguised = Object.fromEntries(
  disguises.map((name): [string, BoxAttempt] => [
    `disguised as ${name}`,
    { box: () => `mkdir '${name}'; echo evil > '${name}/config'`, won: has(`${name}/config`) },
  ]),
);

const outside = '../../outside';

const links: Readonly<Record<string, BoxAttempt>> = {
  'absolute link': { box: () => 'ln -s /etc/passwd out', won: leadsOut('out') },
  'link over the directory’s top': { box: () => `ln -s ${outside}/secret out`, won: leadsOut('out') },
  'link over another link': {
    box: () => 'mkdir -p a/b; ln -s ../.. a/b/up; ln -s a/b/up/../../outside/secret out',
    won: leadsOut('out'),
  },
  'link over a link of the host': {
    host: ({ here }) => symlinkSync(outside, join(here, 'theirs')),
    box: () => 'ln -s theirs/secret out',
    won: leadsOut('out'),
  },
  'link instead of a directory': {
    host: ({ here }) => put(join(here, 'src/main'), 'main\n'),
    box: () => `rm -r src; ln -s ${outside} src`,
    won: leadsOut('src'),
  },
  'directory where the host has a link': {
    host: ({ here }) => symlinkSync(outside, join(here, 'out')),
    box: () => 'rm out; mkdir out; echo evil > out/planted-through-link',
    won: ({ here }) => existsSync(join(here, outside, 'planted-through-link')),
  },
};

const special: Readonly<Record<string, BoxAttempt>> = {
  'set-uid program': {
    box: () => 'cp /bin/true s; chmod 6755 s',
    won: ({ here }) => ((lstatSync(join(here, 's'), { throwIfNoEntry: false })?.mode ?? 0) & 0o6000) !== 0,
  },
  'file and directory that everybody writes': {
    box: () => 'mkdir d; echo x > d/f; chmod 0777 d; chmod 0666 d/f',
    won: ({ here }) => ['d', 'd/f'].some((name) => (lstatSync(join(here, name)).mode & 0o002) !== 0),
  },
  pipe: { box: () => 'mkfifo p', won: has('p') },
  socket: {
    box: () => `perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "s", Listen => 1) or die'`,
    won: has('s'),
  },
  'hard links that stay one file': {
    box: () => 'echo x > a; ln a b',
    won: ({ here }) => lstatSync(join(here, 'a')).ino === lstatSync(join(here, 'b')).ino,
  },
  'holes that fill a disk': {
    box: () => 'truncate -s 400M big',
    won: ({ here }) => (lstatSync(join(here, 'big'), { throwIfNoEntry: false })?.blocks ?? 0) > 400_000,
  },
  'name with a line of its own': {
    box: () => `touch "$(printf 'a\\n+ 0644 forged')"`,
    won: has('a\n+ 0644 forged'),
  },
  'name that writes to a terminal': {
    box: () => `touch "$(printf 'a\\033]0;x\\007')"`,
    won: has('a\u001b]0;x\u0007'),
  },
  'name of bytes that are no text': {
    box: () => `touch "$(printf 'a\\377b')"`,
    won: ({ here }) =>
      readdirSync(Buffer.from(here), { encoding: 'buffer' }).some((name) => name.includes(0xff)),
  },
  'environment of a directory': { box: () => 'echo touch /x > .envrc', won: has('.envrc') },
  'task of an editor': {
    box: () => 'mkdir .vscode; echo {} > .vscode/tasks.json',
    won: has('.vscode/tasks.json'),
  },
  'orders to an agent': { box: () => 'echo obey > CLAUDE.md', won: has('CLAUDE.md') },
  'what a rule hides, replaced': {
    host: ({ here }) => put(join(here, 'secret.env'), 'TOKEN=1\n'),
    hide: 'secret.env',
    box: () => 'echo TOKEN=theirs > secret.env',
    won: ({ here }) => readFileSync(join(here, 'secret.env'), 'utf8') !== 'TOKEN=1\n',
  },
  'what a rule hides, removed with its directory': {
    host: ({ here }) => {
      put(join(here, 'deploy/keys/secret'), 'TOKEN=1\n');
      put(join(here, 'deploy/open'), 'open\n');
    },
    hide: 'deploy/keys/secret',
    box: () => 'rm -rf deploy',
    won: ({ here }) => !existsSync(join(here, 'deploy/keys/secret')),
  },
  'a repository of the host, removed with its directory': {
    host: ({ here }) => repository({ here: join(here, 'lib'), mark: '' }),
    box: () => 'rm -rf lib',
    won: ({ here }) => !existsSync(join(here, 'lib/.git')),
  },
  'a repository of the host, replaced by a file': {
    host: ({ here }) => repository({ here: join(here, 'lib'), mark: '' }),
    box: () => 'rm -rf lib; echo x > lib',
    won: ({ here }) => !existsSync(join(here, 'lib/.git')),
  },
};

export const boxAttempts: Readonly<Record<string, BoxAttempt>> = {
  ...ofGit,
  ...disguised,
  ...links,
  ...special,
};
