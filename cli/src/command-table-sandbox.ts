/** The rows of `command-table.ts` that concern sandboxes themselves. */
import type { CommandSpec, FlagSpec, PositionalSpec } from './command.ts';
import { mountFlags } from './command-table-volumes.ts';

const sandbox: PositionalSpec = { name: 'id', kind: 'sandbox' };

/** Of `run` too. */
export const createFlags: readonly FlagSpec[] = [
  { name: 'layers', short: 'l', value: 'A,B,…', kind: 'module', repeats: true, summary: 'modules to stack' },
  { name: 'owner', value: 'NAME', summary: 'who it is for' },
  { name: 'task', value: 'TEXT', summary: 'what it is for' },
  { name: 'cpu', value: 'CPUS', summary: 'processors it may use, such as 0.5' },
  { name: 'memory', short: 'm', value: 'MIB', summary: 'memory limit in MiB' },
  { name: 'lifetime', value: 'TIME', summary: 'how long it lives, such as 90s, 10m, 2h, 7d; 0 is for ever' },
  {
    name: 'allow-net',
    value: 'HOST',
    kind: 'preset',
    repeats: true,
    summary: 'host, *.host, range or preset it may reach, with :PORT; none: nothing',
  },
  {
    name: 'policy',
    value: 'FILE',
    kind: 'file',
    summary: 'a full policy instead of --allow-net, or a policy file as boxes have it; - is standard input',
  },
  {
    name: 'secret',
    value: 'NAME[=SOURCE@HOST]',
    kind: 'secret',
    repeats: true,
    summary:
      'secret it may use (default all), or none; one of its own, read from env, env:VARIABLE, file:PATH or -, for HOST[,HOST…]',
  },
  { name: 'upstream', value: 'NAME', summary: 'proxy of egress-upstreams.json that it goes out through' },
  {
    name: 'backend',
    value: 'WHAT',
    choices: ['chroot', 'vm'],
    summary: 'what isolates it: chroot (namespaces), or vm (a kernel of its own)',
  },
  ...mountFlags,
];

const nameFlag: FlagSpec = { name: 'name', value: 'TEXT', summary: 'a name for people' };
const idleFlag: FlagSpec = {
  name: 'idle',
  value: 'TIME',
  summary: 'time-out when nobody uses it, such as 10m; 0 is none',
};
const onTimeoutFlag: FlagSpec = {
  name: 'on-timeout',
  value: 'WHAT',
  choices: ['destroy', 'pause', 'snapshot'],
  summary: 'what becomes of it when one of both is over: destroy (default), pause, or snapshot',
};
const envFlag: FlagSpec = {
  name: 'env',
  short: 'e',
  value: 'NAME=VALUE',
  repeats: true,
  summary: 'a variable of all its commands; NAME alone copies ours',
};

/** Of `run` too. */
export const imageFlag: FlagSpec = {
  name: 'image',
  value: 'NAME',
  kind: 'image',
  summary: 'an OCI image to make it from, such as python:3.12-slim; --layers lie above',
};

/** What only a sandbox has whose id the daemon makes. */
const nativeFlags: readonly FlagSpec[] = [
  nameFlag,
  imageFlag,
  { name: 'label', value: 'KEY[=VALUE]', repeats: true, summary: 'a label to find it by' },
  envFlag,
  idleFlag,
  onTimeoutFlag,
];
const yesFlag: FlagSpec = { name: 'yes', short: 'y', summary: 'do not ask' };

export const sandboxCommands: readonly CommandSpec[] = [
  {
    name: 'create',
    group: 'sandbox',
    summary: 'make a sandbox and print its id',
    positionals: [{ ...sandbox, kind: 'text', optional: true }],
    flags: [
      ...createFlags,
      ...nativeFlags,
      {
        name: 'from',
        value: 'ID[:LABEL]',
        kind: 'source',
        summary: 'with the files of this sandbox, or of a snapshot of it, instead of layers',
      },
      { name: 'with-memory', summary: 'with its processes, where --from names a microVM' },
      {
        name: 'body',
        value: 'JSON',
        summary: 'the request itself, or @FILE, or - for standard input; options override it',
      },
    ],
    notes:
      'Without <id> the daemon makes one. --name, --image, --label, --env, --idle, --on-timeout, --from and --with-memory need that; --task and --body are of sandboxes with an id of yours.',
    load: () => import('./commands/create.ts'),
  },
  {
    name: 'ls',
    group: 'sandbox',
    summary: 'list sandboxes',
    positionals: [],
    flags: [
      { name: 'label', value: 'KEY[=VALUE]', repeats: true, summary: 'only those that have this label' },
      {
        name: 'state',
        value: 'STATE',
        choices: ['ready', 'paused', 'stopped', 'failed'],
        repeats: true,
        summary: 'only those in this state: ready, paused, stopped, failed, …',
      },
      { name: 'name', value: 'TEXT', summary: 'only those of this name' },
      { name: 'quiet', short: 'q', summary: 'ids only' },
    ],
    load: () => import('./commands/ls.ts'),
  },
  {
    name: 'info',
    group: 'sandbox',
    summary: 'show one sandbox',
    positionals: [sandbox],
    flags: [],
    load: () => import('./commands/info.ts'),
  },
  {
    name: 'set',
    group: 'sandbox',
    summary: 'change a sandbox: what is named, at once, all of it or nothing',
    positionals: [sandbox],
    flags: [
      nameFlag,
      { name: 'label', value: 'KEY[=VALUE]', repeats: true, summary: 'set a label; KEY- takes it away' },
      { ...envFlag, summary: 'set a variable of commands from now on; NAME- takes it away' },
      { name: 'cpu', value: 'CPUS', summary: 'processors it may use, such as 0.5' },
      { name: 'memory', short: 'm', value: 'MIB', summary: 'memory limit in MiB' },
      { name: 'lifetime', value: 'TIME', summary: 'how long it lives from now on; 0 is for ever' },
      idleFlag,
      onTimeoutFlag,
    ],
    load: () => import('./commands/set.ts'),
  },
  {
    name: 'pause',
    group: 'sandbox',
    summary: 'let a sandbox stand still; it uses no processor time',
    positionals: [sandbox],
    flags: [
      {
        name: 'keep',
        value: 'WHAT',
        choices: ['memory', 'files'],
        summary: 'memory (default): its processes stand still; files: they end',
      },
    ],
    load: () => import('./commands/pause.ts'),
  },
  {
    name: 'resume',
    group: 'sandbox',
    summary: 'let a sandbox go on that was paused',
    positionals: [sandbox],
    flags: [],
    load: () => import('./commands/resume.ts'),
  },
  {
    name: 'fork',
    group: 'sandbox',
    summary: 'make a sandbox with the files of another, which goes on; prints its id',
    positionals: [sandbox, { name: 'label', kind: 'snapshot', optional: true }],
    flags: [
      ...createFlags.filter((flag) => !['layers', 'task'].includes(flag.name)),
      // Its files are on its own image.
      ...nativeFlags.filter((flag) => flag !== imageFlag),
      {
        name: 'with-memory',
        summary: 'with its processes, of a microVM: both go on where it is now, or was at that snapshot',
      },
    ],
    notes: 'With <label> the files of that snapshot. What is not named is as in the other one.',
    load: () => import('./commands/fork.ts'),
  },
  {
    name: 'rm',
    group: 'sandbox',
    summary: 'destroy sandboxes and everything in them',
    positionals: [{ ...sandbox, optional: true, repeats: true }],
    flags: [
      { name: 'all', short: 'a', summary: 'all sandboxes, after asking' },
      { name: 'force', short: 'f', summary: 'a sandbox that does not exist is no failure' },
      { name: 'set-aside', summary: 'what ephemeral mode can’t save is kept in the data directory instead' },
      yesFlag,
    ],
    load: () => import('./commands/rm.ts'),
  },
];
