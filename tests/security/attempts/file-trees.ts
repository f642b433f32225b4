/** Attempts at what reads, copies, changes and unpacks whole trees. */
import type { FileAttempt } from '../file-attempt.ts';
import { often, read } from '../file-operate.ts';
import {
  archive,
  change,
  copy,
  listDeep,
  replace,
  search,
  unlessChanged,
  unpack,
} from '../file-operate-trees.ts';

const same = { kind: 'same' } as const;
const safeAnywhere = { kind: 'none', because: 'the operation is safe on any ground' } as const;

const folderLink = 'ln -s "$F" x';
const twoFolders = 'mkdir d; echo own >d/canary; ln -s "$F" e';
const race = (names: string): string => `exec "$A" exchange ${names}`;

const everything: FileAttempt['operate'] = async (ground) =>
  [
    await archive('.')(ground),
    await search('.', 'x')(ground),
    await listDeep('.')(ground),
    await copy('x', 'copied')(ground),
    await replace('x')(ground),
    await archive('x')(ground),
    await search('x', 'x')(ground),
  ].join('\n');

export const fileTreeAttempts: readonly FileAttempt[] = [
  { id: 'file-archive-link', prepare: folderLink, operate: archive('x'), control: same },
  { id: 'file-search-link', prepare: folderLink, operate: search('x', 'bait-'), control: same },
  { id: 'file-list-deep-link', prepare: folderLink, operate: listDeep('x'), control: same },
  {
    id: 'file-copy-link',
    prepare: folderLink,
    operate: async (ground) => `${await copy('x/secret', 'taken')(ground)} ${await read('taken')(ground)}`,
    control: same,
  },
  { id: 'file-replace-link', prepare: 'ln -s "$C" x', operate: replace('x'), control: same },
  { id: 'file-change-link', prepare: 'ln -s "$C" x', operate: change('x'), control: same },
  {
    id: 'file-replace-swap',
    prepare: twoFolders,
    meanwhile: race('d e'),
    operate: often(replace('d/canary')),
    control: same,
  },
  // What walks a tree or unpacks one follows no link, whoever puts it there in between.
  {
    id: 'file-unpack-swap',
    prepare: twoFolders,
    meanwhile: race('d e'),
    operate: often(unpack('d/canary')),
    control: safeAnywhere,
  },
  {
    id: 'file-unpack-link',
    prepare: folderLink,
    operate: unpack('x/canary'),
    control: safeAnywhere,
  },
  {
    id: 'file-tree-swap',
    prepare: twoFolders,
    meanwhile: race('d e'),
    operate: often(
      async (ground) =>
        `${await archive('.')(ground)} ${await search('.', 'bait-')(ground)} ${await listDeep('.')(ground)}`,
    ),
    control: safeAnywhere,
  },
  {
    id: 'file-change-tree-swap',
    prepare: 'mkdir -m 755 victim; mkdir -p t/d; ln -s ../victim t/e',
    meanwhile: race('t/d t/e'),
    operate: unlessChanged('victim', often(change('t', true))),
    control: safeAnywhere,
  },
  { id: 'file-tree-fifo', prepare: 'mkfifo x', operate: everything, control: safeAnywhere },
  { id: 'file-tree-device', prepare: 'ln -s /dev/zero x', operate: everything, control: safeAnywhere },
  { id: 'file-tree-loop', prepare: 'ln -s . x; ln -s loop loop', operate: everything, control: safeAnywhere },
  {
    id: 'file-tree-grow',
    meanwhile: 'exec "$A" grow x',
    operate: async (ground) => `${await search('x', 'nothing')(ground)} ${await copy('x', 'copied')(ground)}`,
    control: safeAnywhere,
  },
  {
    id: 'file-tree-littered',
    prepare: 'mkdir busy',
    meanwhile: 'exec "$A" litter busy',
    operate: async (ground) => `${await listDeep('busy')(ground)} ${await archive('busy')(ground)}`,
    control: safeAnywhere,
  },
];
