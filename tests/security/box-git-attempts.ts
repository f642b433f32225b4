/**
 * What somebody makes of a repository in a box so that a git outside runs it, or is led elsewhere. Each is a script that stands in the
 * repository, and what a careless user would type over the same tree.
 */

export interface GitAttempt {
  /** `mark`: a file that is there when the attacker's program has run on the host. */
  readonly box: (mark: string) => string;
  /** Of a user without the wall: words of git over a tree where the script has run, after which the mark is there. */
  readonly careless?: readonly string[];
  /** Or: a git that is not told to look takes it. */
  readonly isTaken?: true;
  /** What `box fetch` says; undefined: the branches come. */
  readonly said?: RegExp;
  readonly words?: readonly string[];
}

const hooks =
  'applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change';

const commit = 'echo x >> a.txt; git -c core.hooksPath=/dev/null -c core.fsmonitor=false commit -qam attack';
const asBranch = 'git update-ref refs/heads/attack $C';
/** With the real git beside it. */
const fake = (cases: string): string => `
  ${commit}; git branch attack
  mkdir -p bin; tip=$(git rev-parse attack)
  printf '#!/bin/sh\\ncase "$*" in\\n*for-each-ref*) echo "%s refs/heads/attack" ;;\\n%s\\n*) exec /usr/bin/git "$@" ;;\\nesac\\n' "$tip" '${cases}' > bin/git
  chmod 755 bin/git`;
const treeOf = (entry: string): string => `
  B=$(echo x | git hash-object -w --stdin)
  T=$(printf '${entry}' | sed "s/BLOB/$B/" | git mktree --missing)
  C=$(git commit-tree -p HEAD -m attack $T); ${asBranch}`;
const modulesOf = (text: string): string => `
  printf '${text}' > .gitmodules; git add .gitmodules; git commit -qm attack; git branch attack`;

const refusedByGit = /bundle_refused/;

export const gitAttempts: Readonly<Record<string, GitAttempt>> = {
  'hooks of every kind': {
    box: (mark) =>
      `${commit}; for each in ${hooks}; do printf '#!/bin/sh\\ntouch ${mark}\\n' > .git/hooks/$each; chmod 755 .git/hooks/$each; done`,
    careless: ['commit', '--allow-empty', '-m', 'mine'],
  },
  'hooks elsewhere': {
    box: (mark) =>
      `${commit}; mkdir own; printf '#!/bin/sh\\ntouch ${mark}\\n' > own/post-checkout; chmod 755 own/post-checkout; git config core.hooksPath own`,
    careless: ['checkout', '-q', '-b', 'mine'],
  },
  'a monitor of files': {
    box: (mark) => `${commit}; git config core.fsmonitor 'touch ${mark}; false'`,
    careless: ['status'],
  },
  'a command for ssh': {
    box: (mark) =>
      `${commit}; git config core.sshCommand 'touch ${mark}; false'; git remote add origin ssh://nowhere.invalid/x`,
    careless: ['fetch', 'origin'],
  },
  'a program for signatures': {
    box: (mark) =>
      `${commit}; printf '#!/bin/sh\\ntouch ${mark}\\n' > .git/gpg; chmod 755 .git/gpg; git config gpg.program "$PWD/.git/gpg"; git config commit.gpgSign true`,
    careless: ['commit', '--allow-empty', '-m', 'mine'],
  },
  'a filter with its attributes': {
    box: (mark) =>
      `${commit}; echo '* filter=x' > .gitattributes; git add .gitattributes; git commit -qm attributes; git config filter.x.clean 'touch ${mark}; cat'; echo y > a.txt`,
    careless: ['add', '-A'],
  },
  'a common directory elsewhere': {
    box: (mark) =>
      `${commit}; cp -a .git evil; git config -f evil/config core.fsmonitor 'touch ${mark}; false'; echo ../evil > .git/commondir`,
    careless: ['status'],
  },
  'a git directory elsewhere': {
    box: (mark) =>
      `${commit}; cp -a .git evil; git config -f evil/config core.fsmonitor 'touch ${mark}; false'; rm -rf .git; echo 'gitdir: evil' > .git`,
    careless: ['status'],
  },
  'a configuration that is included': {
    box: (mark) =>
      `${commit}; printf '[core]\\nfsmonitor = touch ${mark}; false\\n' > included; git config include.path ../included`,
    careless: ['status'],
  },
  'a configuration of the worktree': {
    box: (mark) =>
      `${commit}; git config extensions.worktreeConfig true; printf '[core]\\nfsmonitor = touch ${mark}; false\\n' > .git/config.worktree`,
    careless: ['status'],
  },
  'a pack program': {
    box: (mark) =>
      `${commit}; git config uploadpack.packObjectsHook 'touch ${mark}'; git config core.alternateRefsCommand 'touch ${mark}'`,
  },
  'a command for refs of what is borrowed': {
    box: (mark) =>
      `${commit}; git init -q --bare lent.git; echo "$PWD/lent.git/objects" > .git/objects/info/alternates; git clone -q --bare . other.git; git --git-dir=other.git update-ref refs/heads/o "$(git --git-dir=other.git commit-tree -m o -p HEAD HEAD^{tree})"; git config core.alternateRefsCommand 'touch ${mark}'; git remote add origin "$PWD/other.git"`,
    careless: ['fetch', 'origin'],
  },
  'objects of a place on the host': {
    box: () => `${commit}; echo /etc > .git/objects/info/alternates; git branch attack`,
  },
  'objects that are a link to a place on the host': {
    box: () => `${commit}; mv .git/objects moved; ln -s /etc .git/objects`,
    said: /git_failed|bundle_refused/,
  },
  'a history cut short': {
    box: () => `${commit}; git rev-parse HEAD > .git/shallow; git branch attack`,
  },
  'main moved, and all its names': {
    box: () =>
      `${commit}; git checkout -q --orphan other; git commit -qm other; git branch -f main; git update-ref refs/heads/box/attacker/main HEAD; git tag v1; git update-ref refs/remotes/origin/main HEAD`,
  },
  'two names that become one': {
    box: () => `${commit}; git branch box/main; git branch other`,
    said: /branch_refused/,
  },
  'names that are options, paths and lines': {
    box: (mark) =>
      `${commit}; C=$(git rev-parse HEAD); for each in -f --upload-pack=touch ../../../config x/../../main @ HEAD x.lock 'a b' 'a\\nb' '$(touch ${mark})' refs/heads/main; do printf "%s refs/heads/$each\\n" $C; done > names
      mkdir -p bin; printf '#!/bin/sh\\ncase "$*" in *for-each-ref*) cat names ;; *) exec /usr/bin/git "$@" ;; esac\\n' > bin/git; chmod 755 bin/git`,
    said: /bundle|git_failed/,
  },
  'a tree with a name .git': {
    box: () => treeOf('100644 blob BLOB\\t.git\\n'),
    isTaken: true,
    said: refusedByGit,
  },
  'a tree with a name .GIT and a hook in it': {
    box: () =>
      `B=$(echo x | git hash-object -w --stdin); H=$(printf "100755 blob $B\\tpost-checkout\\n" | git mktree); D=$(printf "040000 tree $H\\thooks\\n" | git mktree); T=$(printf "040000 tree $D\\t.GIT\\n" | git mktree); C=$(git commit-tree -p HEAD -m attack $T); ${asBranch}`,
    isTaken: true,
    said: refusedByGit,
  },
  'a tree with a name ..': {
    box: () => treeOf('100644 blob BLOB\\t..\\n'),
    isTaken: true,
    said: refusedByGit,
  },
  'a submodule whose address is an option': {
    box: () => modulesOf('[submodule "x"]\\npath = x\\nurl = -u./payload\\n'),
    isTaken: true,
    said: refusedByGit,
  },
  'a submodule whose name leads out': {
    box: () => modulesOf('[submodule "../../x"]\\npath = x\\nurl = https://example.org/x\\n'),
    isTaken: true,
    said: refusedByGit,
  },
  'submodules in a link': {
    box: () => treeOf('120000 blob BLOB\t.gitmodules\n'),
    isTaken: true,
    said: refusedByGit,
  },
  'a tree whose blob is nowhere': {
    box: () =>
      `T=$(printf '100644 blob 1111111111111111111111111111111111111111\\tx\\n' | git mktree --missing); C=$(git commit-tree -p HEAD -m attack $T); ${asBranch}`,
    said: /git_failed|bundle_refused/,
  },
  'a bundle of garbage': {
    box: () => fake('*bundle*) head -c 100000 /dev/urandom ;;'),
    said: refusedByGit,
  },
  'a bundle with other names and another tip': {
    box: () => fake('*bundle*) exec /usr/bin/git bundle create -q - main --all --branches=other ;;'),
  },
  'a bundle whose parts are left out': {
    box: () => fake('*bundle*) printf "# v3 git bundle\\n@object-format=sha1\\n@filter=blob:none\\n\\n" ;;'),
    said: refusedByGit,
  },
  'a bundle that never comes': {
    box: () => fake('*bundle*) trap "" HUP TERM; while :; do /bin/sleep 1; done ;;'),
    words: ['--time', '2s'],
    said: /took more than 2 s/,
  },
  'a bundle that never ends': {
    box: () => fake('*bundle*) cat /dev/zero ;;'),
    words: ['--size', '2'],
    said: /git_too_large/,
  },
  'names that never end': {
    box: () => `${fake('*bundle*) exit 1 ;;')}; printf '#!/bin/sh\\nyes refs/heads/x\\n' > bin/git`,
    said: /git_too_large/,
  },
  'a subject and an author for the terminal': {
    box: () =>
      `${commit}; git branch attack; git checkout -q attack; W=$(printf '\\033]0;owned\\007'); git -c user.name="$W" commit -q --allow-empty -m "$W"`,
  },
  'words for the terminal': {
    box: () => fake('*bundle*) printf "\\033]0;owned\\007" >&2; exit 1 ;;'),
    said: /\\u\{1b\}\]0;owned/,
  },
};
