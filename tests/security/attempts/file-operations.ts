/**
 * Attempts at the daemon's file operations: links, swaps, names that lead out, files that hold or never end, trees
 * that change while they are walked, and another user's rights.
 */
import { encodeFields } from '@squash/contract/guest/codec';
import { waitFor } from '../../support/wait.ts';
import { careless, type FileAttempt, type Ground, harmText } from '../file-attempt.ts';
import {
  isFile,
  list,
  make,
  move,
  often,
  type Operate,
  read,
  readRange,
  readSome,
  remove,
  stat,
  watch,
  watchUnheard,
  write,
} from '../file-operate.ts';
import { fileTreeAttempts } from './file-trees.ts';

const same = { kind: 'same' } as const;
const safeAnywhere = { kind: 'none', because: 'the operation is safe on any ground' } as const;

const name = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
const secretIn = (folder: string) => (ground: Ground) =>
  `${ground.directory}/${folder}/${name(ground.bait.secretFile)}`;
const secretVia = (prefix: string) => (ground: Ground) => `${prefix}${ground.bait.secretFile}`;
const canaryVia = (prefix: string) => (ground: Ground) => `${prefix}${ground.bait.canaryFile}`;
const secretUp = (ground: Ground) => `${ground.directory}/x${ground.bait.secretFile}`;

const link = 'ln -s "$S" x';
const folderLink = 'ln -s "$F" x';

const links: readonly FileAttempt[] = [
  { id: 'file-read-link', prepare: link, operate: read('x'), control: same },
  {
    id: 'file-read-link-up',
    prepare: 'ln -s ../../../../../../.. x',
    operate: read(secretUp),
    control: same,
  },
  { id: 'file-read-link-folder', prepare: folderLink, operate: read(secretIn('x')), control: same },
  { id: 'file-read-dotdot', operate: read(secretVia('/../../../../..')), control: same },
  { id: 'file-stat-link', prepare: link, operate: stat('x'), control: same },
  { id: 'file-list-link', prepare: folderLink, operate: list('x'), control: same },
  { id: 'file-watch-link', prepare: folderLink, operate: watch('x', false), control: same },
  { id: 'file-write-link', prepare: 'ln -s "$C" x', operate: write('x'), control: same },
  { id: 'file-write-link-dangling', prepare: 'ln -s "$F/new" x', operate: write('x'), control: same },
  { id: 'file-write-dotdot', operate: write(canaryVia('/../../../../..')), control: same },
  {
    id: 'file-write-parents-link',
    prepare: folderLink,
    operate: write('x/new/file', { createParents: true }),
    control: same,
  },
  {
    id: 'file-make-link',
    prepare: folderLink,
    operate: make('x/new', { createParents: true }),
    control: same,
  },
  { id: 'file-move-out', prepare: `${folderLink}; echo >own`, operate: move('own', 'x/own'), control: same },
  { id: 'file-move-in', prepare: folderLink, operate: move('x/canary', 'taken'), control: same },
  { id: 'file-remove-link', prepare: folderLink, operate: remove('x/canary'), control: same },
  {
    id: 'file-remove-tree-link',
    prepare: 'mkdir t; ln -s "$F" t/x',
    operate: remove('t', true),
    control: { kind: 'careless', operate: (ground) => careless(ground, 'find -L t -delete') },
  },
];

/** Of PID 1, and of the worker that does the operation. */
const waysOut = ['1', 'self', 'thread-self'].flatMap((process) =>
  ['root', 'cwd/../../../../../..', ...Array.from({ length: 10 }, (_, fd) => `fd/${String(fd)}/..`)].map(
    (way) => `/proc/${process}/${way}`,
  ),
);

async function each(paths: readonly string[], operate: (path: string) => Promise<string>): Promise<string> {
  const seen: string[] = [];
  for (const path of paths) seen.push(`${path}: ${await operate(path)}`);
  return seen.join('\n');
}

/** Files of the kernel that hold for the whole machine, and PID 1's own program and memory. */
const globals = ['/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches', '/proc/sysrq-trigger'];
const programs = ['/proc/1/exe', '/proc/self/exe', '/proc/1/mem'];

const processes: readonly FileAttempt[] = [
  {
    id: 'file-read-proc-ways',
    operate: (ground) => each(waysOut, (way) => read(secretVia(way))(ground)),
    control: same,
  },
  {
    id: 'file-write-proc-ways',
    operate: (ground) => each(waysOut, (way) => write(canaryVia(way))(ground)),
    control: same,
  },
  {
    id: 'file-read-environment',
    operate: (ground) =>
      each(['/proc/1/environ', '/proc/self/environ', '/proc/1/cmdline'], (path) => read(() => path)(ground)),
    control: same,
  },
  {
    id: 'file-write-kernel',
    operate: async (ground) => {
      const said = await each([...globals, ...programs], (path) => write(() => path)(ground));
      return /: written$/m.test(said) ? `${harmText}${said}` : said;
    },
    control: { kind: 'none', because: 'it would change this machine' },
  },
];

const race = (pair: string) => `exec "$A" exchange ${pair}`;
const twoFiles = 'echo own >x; ln -s "$S" y';
const twoFolders = 'mkdir d; echo own >"d/${S##*/}"; echo own >d/canary; ln -s "$F" e';

const swaps: readonly FileAttempt[] = [
  {
    id: 'file-read-swap',
    prepare: twoFiles,
    meanwhile: race('x y'),
    operate: often(read('x')),
    control: same,
  },
  {
    id: 'file-stat-swap',
    prepare: twoFiles,
    meanwhile: race('x y'),
    operate: often(stat('x')),
    control: same,
  },
  {
    id: 'file-read-swap-folder',
    prepare: twoFolders,
    meanwhile: race('d e'),
    operate: often(read(secretIn('d'))),
    control: same,
  },
  {
    id: 'file-list-swap',
    prepare: twoFolders,
    meanwhile: race('d e'),
    operate: often(list('d')),
    control: same,
  },
  {
    id: 'file-watch-swap',
    prepare: `mkdir t; cd t; ${twoFolders}`,
    meanwhile: `cd t; ${race('d e')}`,
    operate: watch('t', true),
    control: { kind: 'none', because: 'a watch of a tree follows no link on any ground' },
  },
  {
    id: 'file-write-swap',
    prepare: 'echo own >x; ln -s "$C" y',
    meanwhile: race('x y'),
    operate: often(write('x', { mode: 0o777 })),
    control: same,
  },
  {
    id: 'file-write-swap-folder',
    prepare: twoFolders,
    meanwhile: race('d e'),
    operate: often(write('d/new/file', { createParents: true })),
    control: same,
  },
  {
    id: 'file-make-swap',
    prepare: twoFolders,
    meanwhile: race('d e'),
    operate: often(make('d/new')),
    control: same,
  },
  {
    id: 'file-move-swap',
    prepare: twoFolders,
    meanwhile: race('d e'),
    operate: often(async (ground) => `${await write('own')(ground)} ${await move('own', 'd/own')(ground)}`),
    control: same,
  },
  {
    id: 'file-remove-swap',
    prepare: twoFolders,
    meanwhile: race('d e'),
    operate: often(remove('d/canary')),
    control: same,
  },
  {
    id: 'file-remove-tree-swap',
    meanwhile: 'exec "$A" pounce t/d "$F"',
    operate: often(
      async (ground) =>
        `${await make('t/d/e/f', { createParents: true })(ground)} ${await remove('t', true)(ground)}`,
    ),
    control: {
      kind: 'careless',
      operate: (ground) =>
        careless(
          ground,
          'while [ -e "$C" ]; do mkdir -p t/d/e/f; find -L t -delete; rm -f t/d; done 2>/dev/null',
        ),
    },
  },
  {
    // The directory is the operation's own for a moment only: its mode must not go to what stands there next.
    id: 'file-make-mode-swap',
    prepare: 'mkdir -m 700 victim',
    meanwhile: 'exec "$A" pounce new victim',
    asUser: true,
    operate: async (ground) => {
      const seen = await often(
        async (at_) => `${await make('new', { mode: 0o2777 })(at_)} ${await remove('new')(at_)}`,
      )(ground);
      const { mode } = await ground.guest.files.stat(`${ground.directory}/victim`);
      return mode === 0o700 ? seen : `${harmText}mode ${mode.toString(8)}`;
    },
    control: {
      kind: 'careless',
      operate: (ground) =>
        careless(
          ground,
          `while [ "$(stat -c %a victim)" = 700 ]; do mkdir new; chmod 2777 new; rm -rf new; done 2>/dev/null; echo '${harmText}mode'`,
        ),
    },
  },
];

const cat = 'i=0; while [ $i -lt 100 ]; do cat x >/dev/null; i=$((i+1)); done';
const hangs = (script: string): FileAttempt['control'] => ({
  kind: 'careless',
  operate: (ground) => careless(ground, script),
});
const everything: Operate = async (ground) =>
  [
    await read('x')(ground),
    await write('x')(ground),
    await stat('x')(ground),
    await list('x')(ground),
    await make('x/y', { createParents: true })(ground),
  ].join('\n');

const holding: readonly FileAttempt[] = [
  { id: 'file-fifo', prepare: 'mkfifo x', operate: everything, control: hangs('cat x') },
  { id: 'file-fifo-link', prepare: 'mkfifo y; ln -s y x', operate: everything, control: hangs('echo >x') },
  {
    id: 'file-fifo-swap',
    prepare: 'mkfifo y; echo own >x',
    meanwhile: race('x y'),
    operate: often(async (ground) => `${await read('x')(ground)} ${await write('x')(ground)}`),
    control: hangs(cat),
  },
  { id: 'file-device-link', prepare: 'ln -s /dev/zero x', operate: everything, control: hangs(cat) },
  {
    id: 'file-device-swap',
    prepare: 'ln -s /dev/zero y; echo own >x',
    meanwhile: race('x y'),
    operate: often(read('x')),
    control: hangs(cat),
  },
  { id: 'file-loop', prepare: 'ln -s y x; ln -s x y', operate: everything, control: safeAnywhere },
  {
    id: 'file-lease',
    meanwhile: 'exec "$A" lease x',
    operate: async (ground) => {
      await waitFor('the lease', async () => (await stat('leased')(ground)).startsWith(isFile));
      return everything(ground);
    },
    control: hangs('until [ -e leased ]; do :; done; cat x'),
  },
];

const endless = { kind: 'none', because: 'it has no end on any ground; what counts is who ends' } as const;

/** Once the attacker is at it. */
const littered =
  (operate: Operate, path: (ground: Ground) => string = (ground) => `${ground.directory}/busy`): Operate =>
  async (ground) => {
    await waitFor('the litter', async () => (await list(path)(ground)) !== '');
    return operate(ground);
  };

const growing: readonly FileAttempt[] = [
  { id: 'file-grow', meanwhile: 'exec "$A" grow x', operate: often(readSome('x')), control: endless },
  { id: 'file-read-hole', prepare: 'truncate -s 48M x', operate: readSome('x'), control: endless },
  { id: 'file-read-range', prepare: 'truncate -s 48M x', operate: readRange('x'), control: endless },
  { id: 'file-read-pagemap', operate: readSome(() => '/proc/1/pagemap'), control: endless },
  {
    id: 'file-list-littered',
    prepare: 'mkdir busy',
    meanwhile: 'exec "$A" litter busy',
    operate: littered(list('busy')),
    control: endless,
  },
  {
    id: 'file-list-littered-memory',
    prepare: 'mkdir -p /dev/shm/busy',
    meanwhile: 'exec "$A" litter /dev/shm/busy',
    operate: littered(
      list(() => '/dev/shm/busy'),
      () => '/dev/shm/busy',
    ),
    control: endless,
  },
  {
    id: 'file-watch-unheard',
    prepare: 'mkdir busy',
    meanwhile: 'exec "$A" litter busy',
    operate: littered(watchUnheard),
    control: endless,
  },
  {
    id: 'file-remove-tree-littered',
    prepare: 'mkdir busy',
    meanwhile: 'exec "$A" litter busy',
    operate: littered(remove('busy', true)),
    control: endless,
  },
];

const asUser = [
  ['uid', 1_000],
  ['gid', 1_000],
] as const;
const privateText = 'for root alone';
const twoOwners = `echo own >x; chmod 666 x; echo '${privateText}' >private; chmod 600 private; ln -s private y`;

const otherUser: readonly FileAttempt[] = [
  {
    id: 'file-read-as-user',
    prepare: twoOwners,
    meanwhile: race('x y'),
    operate: often(async (ground) => {
      const frame = await ground.ask(
        encodeFields('fileRead', [['path', `${ground.directory}/x`], ...asUser]),
      );
      const text = frame.kind === 'data' ? Buffer.from(frame.data).toString() : frame.type;
      return text.includes(privateText) ? `${harmText}${text}` : text;
    }),
    control: {
      kind: 'careless',
      operate: async (ground) => {
        const seen = await often(read('x'))(ground);
        return seen.includes(privateText) ? `${harmText}${seen}` : seen;
      },
    },
  },
  {
    id: 'file-remove-as-user',
    prepare:
      'mkdir open; echo own >open/file; chmod 777 open; mkdir -m 755 shut; echo own >shut/file; ln -s shut y',
    meanwhile: race('open y'),
    operate: async (ground) => {
      const path = `${ground.directory}/open/file`;
      await often(
        async () => (await ground.ask(encodeFields('fileRemove', [['path', path], ...asUser]))).type,
      )(ground);
      const left = await stat('shut/file')(ground);
      return left.startsWith(isFile) ? left : `${harmText}${left}`;
    },
    control: {
      kind: 'careless',
      operate: async (ground) => {
        await often(remove('open/file'))(ground);
        const left = await stat('shut/file')(ground);
        return left.startsWith(isFile) ? left : `${harmText}${left}`;
      },
    },
  },
];

export const fileOperationAttempts: readonly FileAttempt[] = [
  ...fileTreeAttempts,
  ...links,
  ...processes,
  ...swaps,
  ...holding,
  ...growing,
  ...otherUser,
];
