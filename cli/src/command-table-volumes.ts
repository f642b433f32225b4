/** The rows of `command-table.ts` that concern volumes and what sandboxes have attached. */
import type { CommandSpec, FlagSpec, PositionalSpec } from './command.ts';

const sandbox: PositionalSpec = { name: 'id', kind: 'sandbox' };
const label: FlagSpec = { name: 'label', value: 'KEY=VALUE', repeats: true, summary: 'a label' };

/** Of `create` and `run`. */
export const mountFlags: readonly FlagSpec[] = [
  {
    name: 'volume',
    value: 'NAME:PATH[:ro]',
    kind: 'volume',
    repeats: true,
    summary: 'volume that it has at this path',
  },
  {
    name: 'mount',
    value: 'DIRECTORY:PATH[:MODE]',
    repeats: true,
    summary:
      'directory of the host, of those the operator allows, that it has at this path: ro, cow or rw, and levels of what lies in it (ro,hidden=.env)',
  },
];

const tier: FlagSpec = {
  name: 'tier',
  value: 'TIER',
  kind: 'tier',
  summary: 'for the runs of a group of this tier',
};
const owner: FlagSpec = {
  name: 'owner',
  value: 'OWNER',
  kind: 'owner',
  summary: 'for this owner’s sandboxes',
};
const directory: PositionalSpec = { name: 'directory[:path]', kind: 'text' };

export const volumeCommands: readonly CommandSpec[] = [
  {
    name: 'volume create',
    group: 'volume',
    summary: 'make a directory that outlives sandboxes',
    positionals: [{ name: 'name', kind: 'text' }],
    flags: [
      { name: 'size', value: 'MIB', summary: 'what its files may take, set aside on the disk' },
      { name: 'from', value: 'NAME', kind: 'volume', summary: 'copy this volume or snapshot' },
      label,
    ],
    load: () => import('./commands/volume-create.ts'),
  },
  {
    name: 'volume ls',
    group: 'volume',
    summary: 'list volumes, and which sandboxes have them',
    positionals: [],
    flags: [{ name: 'quiet', short: 'q', summary: 'names only' }],
    load: () => import('./commands/volume-ls.ts'),
  },
  {
    name: 'volume rm',
    group: 'volume',
    summary: 'remove volumes that are not attached, with all that is in them',
    positionals: [{ name: 'name', kind: 'volume', repeats: true }],
    flags: [],
    load: () => import('./commands/volume-rm.ts'),
  },
  {
    name: 'volume snapshot',
    group: 'volume',
    summary: 'copy a volume, to be read by any number of sandboxes',
    positionals: [
      { name: 'name', kind: 'volume' },
      { name: 'snapshot', kind: 'text' },
    ],
    flags: [label],
    load: () => import('./commands/volume-snapshot.ts'),
  },
  {
    name: 'mount',
    group: 'volume',
    summary: 'attach a volume or a directory of the host; alone: what is attached',
    positionals: [sandbox, { name: 'source:path', kind: 'volume', optional: true }],
    flags: [],
    notes:
      'squash mount dev data:/data, squash mount dev data:/data:ro; a source that begins with "/" is a directory of the host, read-only without :rw. squash mount dev /srv/app:/app:cow,hidden=.env,ro=vendor: levels, of a sandbox that is stopped.',
    load: () => import('./commands/mount.ts'),
  },
  {
    name: 'unmount',
    group: 'volume',
    summary: 'detach what a sandbox has at a path',
    positionals: [sandbox, { name: 'path', kind: 'text' }],
    flags: [],
    load: () => import('./commands/unmount.ts'),
  },
  {
    name: 'mounts check',
    group: 'volume',
    summary: 'whether a sandbox would get a directory of the host, or why not',
    positionals: [directory],
    flags: [tier, owner],
    notes:
      'squash mounts check /srv/data:/data:rw --tier trusted. Exits with 1 where it would not; nothing is attached.',
    load: () => import('./commands/mounts-check.ts'),
  },
  {
    name: 'mounts explain',
    group: 'volume',
    summary: 'the same with every rule that is asked',
    positionals: [directory],
    flags: [tier, owner],
    load: () => import('./commands/mounts-explain.ts'),
  },
  {
    name: 'mounts import',
    group: 'volume',
    summary: 'print NanoClaw’s mount-allowlist.json as host-directories.json',
    positionals: [{ name: 'file', kind: 'file', optional: true }],
    flags: [],
    notes:
      'squash mounts import > host-directories.json, to be put into the data directory. Without a file: ~/.config/nanoclaw/mount-allowlist.json; what can’t be had is told on standard error.',
    load: () => import('./commands/mounts-import.ts'),
  },
];
