/** Attempts at files of the host: what is hidden, closed, or read-only. */
import { attempt, type BoxAttempt, markOf, onlyRoot, writing } from './attempt.ts';
import { baitName, closedDirectories, closedFiles, type Ground } from './ground.ts';

const key = (ground: Ground): string => `${ground.home}/.ssh/${baitName}`;
const word = (path: string): string => path.replaceAll(/[^a-z]+/g, '-').replaceAll(/^-|-$/g, '');
/** Python, where it is there: no shell has these calls. */
const python = (code: string, ...words: readonly string[]): string =>
  `command -v python3 >/dev/null || exit 77; python3 -c '${code}' ${words.map((each) => `'${each}'`).join(' ')}`;
const needsPython = { kind: 'host', optional: 'python3 may be missing' } as const;
const xattr = (name: string, value: string, path: string): string =>
  python(`import os,sys; os.setxattr(sys.argv[1], "user.overlay.${name}", b"${value}")`, path);
const ofOverlay = { kind: 'none', because: 'there is no overlay on the host' } as const;
const ofBox = (why: string) => ({ kind: 'none', because: why }) as const;

const hidden: readonly BoxAttempt[] = [
  ...closedDirectories.map((name) =>
    attempt(`read-${word(name)}`, ({ home }) => `cat '${home}/${name}/${baitName}'`),
  ),
  ...closedFiles.map((name) =>
    attempt(
      `read-${word(name)}`,
      ({ home }) => `cat '${home}/${name}'; if test -s '${home}/${name}'; then exit 66; fi`,
    ),
  ),
  attempt('read-later-in-ssh', (ground) => `cat '${key(ground)}-later'`),
  attempt('read-later-in-home', ({ home }) => `cat '${home}/${baitName}-later'`),
  attempt('read-beside', ({ project }) => `cat '${project}/../../beside/file'`),
  attempt('read-home-by-search', ({ home }) => `grep -rhs bait- '${home}' --include='${baitName}*'`),
  attempt('read-host-tmp', ({ temporary }) => `cat '${temporary}'`),
  attempt('read-host-var-tmp', ({ lasting }) => `cat '${lasting}'`),
  attempt(
    'read-other-homes',
    `me=$(id -un); for d in /home/* /root; do test "$d" = "$HOME" || ! ls -A "$d" 2>/dev/null | grep -q . || exit 66; done`,
    {
      kind: 'host',
      optional: 'nobody else may have a home that others may list',
    },
  ),
  attempt(
    'read-shadow',
    'for f in shadow shadow- gshadow gshadow- sudoers; do ! cat /etc/$f || exit 66; done',
    onlyRoot,
  ),
  attempt('see-shadow', 'for f in shadow gshadow; do ! test -e /etc/$f || exit 66; done', { kind: 'host' }),
  attempt('read-data', ({ dataDir }) => `if ls -A '${dataDir}'; then exit 66; fi`),
];

const ways: readonly BoxAttempt[] = [
  attempt('link-to-key', (ground) => `ln -s '${key(ground)}' l; cat l`),
  attempt('link-of-repository', ({ project }) => `cat '${project}/to-key'`),
  attempt(
    'link-up-of-repository',
    ({ project }) => `cat '${project}/up/beside/file' || cat '${project}/../../beside/file'`,
  ),
  attempt(
    'hard-link-to-key',
    (ground) => `ln '${key(ground)}' '${ground.out}/hard' && cat '${ground.out}/hard'`,
    {
      kind: 'host',
      optional: 'the throw-away home may be another file system',
    },
  ),
  ...['1/root', 'self/root', 'thread-self/root', '1/task/1/root'].map((way) =>
    attempt(
      `proc-${word(way.replace('1', 'one'))}-${way.length}`,
      (ground) => `cat '/proc/${way}${key(ground)}'`,
      {
        kind: 'host',
        run: (ground) => `cat '/proc/self/root${key(ground)}'`,
      },
    ),
  ),
  attempt('proc-all-roots', (ground) => `cat /proc/[0-9]*/root'${key(ground)}' 2>/dev/null`),
  attempt(
    'proc-all-cwd',
    (ground) => `for p in /proc/[0-9]*/cwd; do cat "$p/../../../../../../..${key(ground)}" 2>/dev/null; done`,
  ),
  attempt(
    'proc-all-descriptors',
    (ground) =>
      `for p in /proc/[0-9]*/fd/*; do test -d "$p" && cat "$p/../../../../../../../../..${key(ground)}" 2>/dev/null; done; true`,
    { kind: 'host', run: (ground) => `exec 5</; cat "/proc/self/fd/5${key(ground)}"` },
  ),
  attempt('foreign-directories', (ground) => `$A foreign-directories '${key(ground)}'`, {
    kind: 'host',
    run: (ground) => `exec 5</; cat "/proc/self/fd/5${key(ground)}"`,
  }),
  attempt('leaked-descriptors', '$A leaked-descriptors', {
    kind: 'host',
    run: () => '$A leaked-descriptors 9</',
  }),
  attempt('file-handle', '$A file-handle', {
    kind: 'none',
    because: 'it wants CAP_DAC_READ_SEARCH, which no user has',
  }),
  attempt('chroot-out', (ground) => `$A chroot-escape '${key(ground)}'`, ofBox('a user may not chroot')),
  attempt('bind-of-parent', ({ home }) => `$A mount-bind '${home}'`, { kind: 'namespace' }),
  attempt(
    'umount-repository',
    ({ project }) => `umount '${project}' && exit 66; umount -l '${project}' && exit 66; true`,
    {
      kind: 'namespace',
      run: ({ project }) => `mount --bind '${project}' '${project}'; umount '${project}' && exit 66`,
    },
  ),
];

const inCopy = (id: string, script: (ground: Ground) => string, control = ofOverlay): BoxAttempt =>
  attempt(id, (ground) => `cd '${ground.project}' || exit 2; ${script(ground)}`, control);

const ofCopy: readonly BoxAttempt[] = [
  attempt('copy-hidden-file', ({ project }) => `cat '${project}/.env'`),
  attempt('copy-hidden-directory', ({ project }) => `cat '${project}/keys/k'`),
  attempt('copy-hidden-later', ({ project }) => `cat '${project}/keys/later'`),
  attempt('copy-hidden-deep', ({ project }) => `cat '${project}/deep/er/hidden/k'`),
  attempt('copy-denied', ({ project }) => `chmod 644 '${project}/denied.txt'; cat '${project}/denied.txt'`),
  attempt('copy-denied-hard-link', ({ project }) => `cd '${project}'; ln denied.txt other-$$; cat other-$$`),
  attempt(
    'copy-denied-renamed',
    ({ project }) => `cd '${project}'; mv denied.txt other-$$; cat other-$$; mv other-$$ denied.txt`,
  ),
  attempt('copy-denied-archive', ({ project }) => `tar -C '${project}' -cf - . 2>/dev/null; true`),
  inCopy('copy-whiteout-removed', () => 'rm -rf keys; mkdir keys; cat keys/k'),
  inCopy(
    'copy-whiteout-renamed',
    () => 'mkdir n && mv -T n keys; cat keys/k; ls -A keys | grep -x later && exit 66; true',
  ),
  inCopy(
    'copy-opaque-removed',
    () => 'mkdir -p keys; setfattr -x user.overlay.opaque keys 2>/dev/null; cat keys/k',
  ),
  inCopy('copy-opaque-no', () => `mkdir -p keys; ${xattr('opaque', 'n', 'keys')}; cat keys/k`),
  inCopy('copy-redirect', () => `mkdir -p r; ${xattr('redirect', '/keys', 'r')}; cat r/k`),
  inCopy(
    'copy-redirect-file',
    () => `touch f; ${xattr('redirect', '/.env', 'f')}; ${xattr('metacopy', '', 'f')}; cat f`,
  ),
  inCopy('copy-escaped-redirect', () => `mkdir -p r2; ${xattr('overlay.redirect', '/keys', 'r2')}; cat r2/k`),
  inCopy('copy-whiteout-node', () => 'mknod w c 0 0; mv w src; cat keys/k'),
  inCopy(
    'copy-exchange',
    () =>
      `mkdir -p keys e; ${python('import ctypes; ctypes.CDLL(None).renameat2(-100, b"e", -100, b"keys", 2)')}; cat e/k keys/k`,
  ),
  inCopy('copy-renamed-ancestor', () => 'mv deep d2; cat d2/er/hidden/k; mv d2 deep; cat deep/er/hidden/k'),
  inCopy('copy-recreated-ancestor', () => 'rm -rf deep; mkdir -p deep/er/hidden; cat deep/er/hidden/k'),
  inCopy('copy-file-handle', () => '$A file-handle'),
];

const inOut = (id: string, script: string): BoxAttempt =>
  attempt(id, ({ out }) => `cd '${out}' || exit 2; ${script}; true`);

/** What is hidden in a place for writing has something mounted over it. */
const ofOut: readonly BoxAttempt[] = [
  inOut('open-hidden-file', 'cat sub/.env'),
  inOut('open-hidden-directory', 'cat closed/k'),
  inOut('open-hidden-mode', 'chmod 644 sub/.env; cat sub/.env'),
  inOut('open-hidden-hard-link', 'ln sub/.env h; cat h; rm -f h'),
  inOut('open-hidden-renamed', 'mv sub/.env e; cat e; mv e sub/.env'),
  inOut('open-hidden-directory-renamed', 'mv closed c; cat c/k; mv c closed'),
  // Where this goes through the rule holds no more at the next start.
  inOut('open-hidden-ancestor-renamed', 'mv sub s && cat s/.env; test ! -d s || { mv s sub; exit 66; }'),
  inOut('open-hidden-ancestor-linked', 'mkdir n && mv -T sub n/s; cat n/s/.env; mv n/s sub; rmdir n'),
  inOut('open-hidden-copied', 'cp -a sub copied; cat copied/.env; rm -rf copied'),
  inOut('open-hidden-by-descriptor', 'exec 5<.; cat /proc/self/fd/5/sub/.env'),
  // What would make another user of the machine this one.
  inOut('open-set-uid', 'cp /bin/true s; chmod 4755 s; test -u s && exit 66; rm -f s'),
  inOut('open-set-gid', 'cp /bin/true s; chmod g+s s; test -g s && exit 66; rm -f s'),
  ...['os.open("s", os.O_CREAT | os.O_WRONLY, 0o6755)', 'os.mknod("s", 0o100755 | 0o4000)'].map((call, at) =>
    attempt(
      `open-set-uid-made-${at}`,
      ({ out }) =>
        `cd '${out}'; rm -f s; ${python(`import os; ${call}`)}; test -u s && exit 66; rm -f s; true`,
      needsPython,
    ),
  ),
  attempt(
    'open-hidden-exchanged',
    ({ out }) =>
      `cd '${out}'; echo x >x; ${python('import ctypes; ctypes.CDLL(None).renameat2(-100, b"x", -100, b"sub/.env", 2)')}; cat x; python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b"x", -100, b"sub/.env", 2)'; rm -f x`,
    needsPython,
  ),
  attempt('reference-hidden', ({ reference }) => `cat '${reference}/closed/k'`),
  attempt('reference-hidden-later', ({ reference }) => `cat '${reference}/closed/later'`),
  attempt(
    'reference-denied',
    ({ reference }) => `chmod 644 '${reference}/denied'; cat '${reference}/denied'`,
  ),
];

const system = [
  '/etc/passwd',
  '/etc/ld.so.preload',
  '/etc/cron.d/squash',
  '/etc/profile.d/squash.sh',
  '/usr/bin/squash-x',
  '/usr/local/bin/squash-x',
  '/lib/squash-x',
  '/var/lib/dpkg/squash-x',
];

const ofHome = [
  '.bashrc',
  '.profile',
  '.zshenv',
  '.ssh/authorized_keys',
  '.config/autostart/squash.desktop',
  '.config/systemd/user/squash.service',
  '.config/git/config',
  '.gitconfig',
  '.local/bin/squash-tool',
  '.claude/settings.json',
  '.local/share/applications/squash.desktop',
];

const ofProject = ['.git/hooks/pre-commit', '.git/config', '.envrc', 'src/main', 'up/beside/file'];

const writes: readonly BoxAttempt[] = [
  ...system.map((path) => writing(`write-${word(path)}`, () => path, onlyRoot)),
  ...ofHome.map((name) => writing(`write-home-${word(name)}`, ({ home }) => `${home}/${name}`)),
  ...ofProject.map((name) => writing(`write-project-${word(name)}`, ({ project }) => `${project}/${name}`)),
  writing('write-host-tmp', ({ temporary }) => `${temporary}-canary`),
  writing('write-host-var-tmp', ({ lasting }) => `${lasting}-canary`),
  writing('write-reference', ({ reference }) => `${reference}/file`),
  writing('write-guarded', ({ out }) => `${out}/guarded/hooks/hook`),
  {
    id: 'write-guarded-ancestor',
    run: ({ out }) =>
      `cd '${out}'; mv guarded g && mkdir -p guarded/hooks && echo '${markOf('write-guarded-ancestor')}' >>guarded/hooks/new; cp g/hooks/hook guarded/hooks/hook; true`,
    changes: ({ out }) => `${out}/guarded/hooks/new`,
    control: { kind: 'host' },
  },
  {
    id: 'write-reference-by-descriptor',
    run: ({ reference }) =>
      `exec 5<'${reference}/file'; echo '${markOf('write-reference-by-descriptor')}' >>/proc/self/fd/5; true`,
    changes: ({ reference }) => `${reference}/file`,
    control: { kind: 'host' },
  },
  {
    id: 'write-reference-hard-link',
    run: ({ reference, out }) =>
      `ln '${reference}/file' '${out}/l' && echo '${markOf('write-reference-hard-link')}' >>'${out}/l'; true`,
    changes: ({ reference }) => `${reference}/file`,
    control: { kind: 'host' },
  },
  attempt(
    'mode-of-reference',
    ({ reference }) =>
      `if chmod 777 '${reference}/file' || touch '${reference}/file' || setfattr -n user.x -v y '${reference}/file'; then exit 66; fi`,
  ),
  attempt(
    'rename-in-reference',
    ({ reference }) =>
      `if mv '${reference}/file' '${reference}/f'; then mv '${reference}/f' '${reference}/file'; exit 66; fi`,
  ),
  {
    id: 'remove-project',
    run: ({ project }) => `rm -rf '${project}/kept'; true`,
    keeps: ({ project }) => `${project}/kept/file`,
    control: { kind: 'host' },
  },
  writing('write-crontab', () => '/var/spool/cron/crontabs/squash', onlyRoot),
];

export const fileAttempts: readonly BoxAttempt[] = [...hidden, ...ways, ...ofCopy, ...ofOut, ...writes];

/** The box moves the way to its copy away and lays another one there, over which the copy is mounted at the next start. */
export const prepareRestart = ({ project, home }: Ground): string =>
  `cd '${home}' && cd "$(dirname '${project}')/.." && mv nested moved && mkdir -p nested/project/keys nested/project/deep/er/hidden nested/project/r nested/project/src &&
cd nested/project && touch mine .env2 && ln -s keys k2
for p in keys deep deep/er deep/er/hidden r; do setfattr -n user.overlay.origin -v 0 $p; done 2>/dev/null
setfattr -n user.overlay.redirect -v /keys r; setfattr -n user.overlay.redirect -v /.env .env2; setfattr -n user.overlay.metacopy -v '' .env2
true`;

const afterRestart = (id: string, path: string): BoxAttempt =>
  attempt(`again-${id}`, ({ project }) => `test -e '${project}/src' || exit 2; cat '${project}/${path}'`);

/** In the box when it has started anew, over what it laid. */
export const restartAttempts: readonly BoxAttempt[] = [
  afterRestart('hidden-directory', 'keys/k'),
  afterRestart('hidden-later', 'keys/later'),
  afterRestart('hidden-file', '.env'),
  afterRestart('hidden-deep', 'deep/er/hidden/k'),
  afterRestart('denied', 'denied.txt'),
  attempt('again-redirect', ({ project }) => `cat '${project}/r/k'`, ofOverlay),
  attempt('again-metacopy', ({ project }) => `cat '${project}/.env2'`, ofOverlay),
  attempt('again-link', ({ project }) => `cat '${project}/k2/k'`, ofOverlay),
  attempt('again-moved', ({ project }) => `cat '${project}/../../moved/project/keys/k'`, ofOverlay),
  attempt(
    'again-open-hidden',
    ({ out }) => `cat '${out}/sub/.env' '${out}'/*/.env '${out}/closed/k' '${out}'/*/k; true`,
  ),
  attempt('again-key', (ground) => `cat '${key(ground)}'`),
  attempt(
    'again-credentials',
    ({ home }) =>
      `cat '${home}/.config/git/credentials'; if test -s '${home}/.config/git/credentials'; then exit 66; fi`,
  ),
];
