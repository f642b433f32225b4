/** The rows of `command-table.ts` that concern snapshots. */
import type { CommandSpec, PositionalSpec } from './command.ts';

const sandbox: PositionalSpec = { name: 'id', kind: 'sandbox' };

export const layerCommands: readonly CommandSpec[] = [
  {
    name: 'snapshot',
    group: 'layer',
    summary: 'keep a sandbox’s files under a label',
    positionals: [sandbox, { name: 'label', kind: 'text', optional: true }],
    flags: [
      { name: 'label', value: 'KEY[=VALUE]', repeats: true, summary: 'a label to find it by' },
      {
        name: 'with-memory',
        summary: 'with its processes, of a microVM: squash fork --with-memory goes on with them',
      },
    ],
    load: () => import('./commands/snapshot.ts'),
  },
  {
    name: 'restore',
    group: 'layer',
    summary: 'put a sandbox’s files back to a snapshot; its running commands end',
    positionals: [sandbox, { name: 'label', kind: 'snapshot' }],
    flags: [{ name: 'with-memory', summary: 'of one that was taken with it: the processes of then go on' }],
    load: () => import('./commands/restore.ts'),
  },
  {
    name: 'snapshots ls',
    group: 'layer',
    summary: 'list a sandbox’s snapshots',
    positionals: [sandbox],
    flags: [
      {
        name: 'label',
        value: 'KEY[=VALUE]',
        repeats: true,
        summary: 'only those that have this label',
      },
      { name: 'quiet', short: 'q', summary: 'names only' },
    ],
    load: () => import('./commands/snapshots-ls.ts'),
  },
  {
    name: 'snapshots rm',
    group: 'layer',
    summary: 'remove snapshots; what lies on them goes on',
    positionals: [sandbox, { name: 'label', kind: 'snapshot', repeats: true }],
    flags: [],
    load: () => import('./commands/snapshots-rm.ts'),
  },
  {
    name: 'snapshots get',
    group: 'layer',
    summary: 'download a snapshot whole, as one squashfs file',
    positionals: [
      sandbox,
      { name: 'label', kind: 'snapshot' },
      { name: 'file', kind: 'file', optional: true },
    ],
    flags: [{ name: 'force', short: 'f', summary: 'replace a file of this name' }],
    notes: 'The file is <id>-<label>.squashfs unless named; - is standard output.',
    load: () => import('./commands/snapshots-get.ts'),
  },
  {
    name: 'snapshots put',
    group: 'layer',
    summary: 'upload a squashfs file as a snapshot, for restore',
    positionals: [sandbox, { name: 'file', kind: 'file' }, { name: 'label', kind: 'text', optional: true }],
    flags: [],
    notes:
      'The label is the file’s name without .squashfs. The file may be - for standard input; then a label is needed.',
    load: () => import('./commands/snapshots-put.ts'),
  },
  {
    name: 'snapshots diff',
    group: 'layer',
    summary: 'what was added, changed and removed: up to a snapshot, or since one',
    positionals: [sandbox, { name: 'label', kind: 'snapshot' }],
    flags: [
      {
        name: 'against',
        value: 'LABEL',
        kind: 'snapshot',
        summary:
          'base (default): the modules; another snapshot; or current: the sandbox now, since the snapshot',
      },
    ],
    load: () => import('./commands/snapshots-diff.ts'),
  },
  {
    name: 'snapshots label',
    group: 'layer',
    summary: 'change the labels of a snapshot, or its name',
    positionals: [
      sandbox,
      { name: 'label', kind: 'snapshot' },
      { name: 'change', kind: 'text', optional: true, repeats: true },
    ],
    flags: [{ name: 'rename', value: 'NAME', summary: 'the snapshot’s new name' }],
    notes: 'A change is KEY=VALUE or KEY, which sets a label, or KEY-, which takes it away.',
    load: () => import('./commands/snapshots-label.ts'),
  },
];
