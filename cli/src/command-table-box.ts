/** The rows of `command-table.ts` that concern boxes: programs on this machine that see of it what they were shown. */
import { policyFileFlag } from './command-table-box-policy.ts';
import type { CommandSpec, FlagSpec, PositionalSpec } from './command.ts';

const box: PositionalSpec = { name: 'box', kind: 'box' };

const placeFlag = (name: string, summary: string): FlagSpec => ({
  name,
  value: 'PATH',
  kind: 'file',
  repeats: true,
  summary,
});

const environmentFlag: FlagSpec = {
  name: 'env',
  short: 'e',
  value: 'NAME[=VALUE]',
  repeats: true,
  summary: 'give it a variable; NAME alone copies ours',
};

const ttyFlag: FlagSpec = {
  name: 'tty',
  short: 't',
  summary: 'give it a terminal (default where standard input and output are terminals)',
};

const placeOf: FlagSpec = {
  name: 'place',
  value: 'PATH',
  kind: 'directory',
  summary: 'another directory that it has copy-on-write',
};

const publishFlag: FlagSpec = {
  name: 'publish',
  short: 'p',
  value: '[LOCAL:]PORT',
  repeats: true,
  summary: 'let 127.0.0.1:LOCAL of this machine be its PORT while this command line runs; 0: a free one',
};

export const runFlags: readonly FlagSpec[] = [
  placeFlag('ro', 'show it this file or directory, read-only'),
  placeFlag('rw', 'let it write this file or directory'),
  placeFlag('cow', 'show it this directory; what it writes there stays in the box'),
  placeFlag('hide', 'hide this file or directory'),
  placeFlag('deny', 'let it see that this is there, and not open it'),
  {
    name: 'repo',
    value: 'LEVEL',
    choices: ['cow', 'rw', 'ro', 'none'],
    summary: 'how it has the repository: cow (default), rw, ro or none',
  },
  { name: 'branch', value: 'NAME', summary: 'begin on a new branch of this name, without changes of yours' },
  { name: 'base', value: 'REF', summary: 'where the new branch begins (default HEAD)' },
  policyFileFlag,
  environmentFlag,
  {
    name: 'net',
    value: 'HOST',
    repeats: true,
    summary: 'host, *.host, range or preset it may reach, with :PORT',
  },
  { name: 'no-net', summary: 'it reaches nothing (default)' },
  { name: 'net-all', summary: 'it reaches everything that is public' },
  publishFlag,
  {
    name: 'unix-socket',
    value: 'PATH|ssh-agent[=KEY]',
    kind: 'file',
    repeats: true,
    summary: 'let it reach this Unix socket; ssh-agent: list keys and sign, or with KEY alone',
  },
  {
    name: 'device',
    value: 'NAME|PATH',
    kind: 'file',
    repeats: true,
    summary: 'let it open this device: gpu, kvm, fuse, or a path below /dev',
  },
  { name: 'nesting', summary: 'its programs may make user namespaces: for an agent’s own sandbox' },
  ttyFlag,
  { name: 'name', value: 'NAME', summary: 'a name to find it by' },
  { name: 'keep', summary: 'keep the box when the command has ended' },
  { name: 'rm', summary: 'remove the box when the command has ended, with what it wrote' },
  { name: 'detach', short: 'd', summary: 'start it in the background and print the box' },
  { name: 'memory', short: 'm', value: 'MIB', summary: 'memory limit in MiB' },
  { name: 'cpu', value: 'CPUS', summary: 'processors it may use, such as 0.5' },
  { name: 'processes', value: 'N', summary: 'processes and threads it may have at once (default 1024)' },
  { name: 'time', value: 'TIME', summary: 'end the command after this long, such as 90s, 10m, 2h' },
  { name: 'trace-paths', summary: 'note which paths it is refused, for box events and box learn' },
  { name: 'print-policy', summary: 'print the rules as a policy file, and run nothing' },
  { name: 'dry-run', summary: 'tell what it would see and reach, and run nothing' },
];

export const exitNotes = `The command's exit code passes through; 128 + N where signal N ended it. Squash's own: 124 out of time, 125 Squash failed,
126 the rules forbid it or it can't be run, 127 not found.`;

export const boxCommands: readonly CommandSpec[] = [
  {
    name: 'box run',
    group: 'box',
    summary: 'run a command on this machine, over this repository and nothing else of it',
    positionals: [],
    flags: runFlags,
    rest: { after: 0, name: 'command', optional: true },
    passesExitCode: true,
    notes: `It sees the system read-only, the repository copy-on-write, of the home directory what is named, and no network.
A box that wrote nothing to the repository is removed at the end, another is kept and stopped.
${exitNotes}`,
    load: () => import('./commands/box-run.ts'),
  },
  {
    name: 'box ps',
    group: 'box',
    summary: 'list the boxes',
    positionals: [],
    flags: [
      { name: 'quiet', short: 'q', summary: 'ids only' },
      { name: 'watch', short: 'w', summary: 'go on, every two seconds' },
    ],
    load: () => import('./commands/box-ps.ts'),
  },
  {
    name: 'box events',
    group: 'box',
    summary: 'what happened to a box: itself, its processes, limits, network, paths, secrets and approvals',
    positionals: [box],
    flags: [
      { name: 'follow', short: 'f', summary: 'go on until the box is removed' },
      {
        name: 'kind',
        value: 'KIND',
        repeats: true,
        choices: ['box', 'process', 'limit', 'network', 'path', 'secret', 'approval'],
        summary: 'only lines of this kind: box, process, limit, network, path, secret, approval',
      },
    ],
    notes:
      'Paths are those that it was refused and that are here, of a box that was run with --trace-paths or by box learn.',
    load: () => import('./commands/box-events.ts'),
  },
  {
    name: 'box approve',
    group: 'box',
    summary: 'answer what boxes ask to reach, one question after the other',
    positionals: [{ ...box, optional: true }],
    flags: [
      {
        name: 'watch',
        short: 'w',
        summary: 'go on with each question as it comes, of boxes that come later, too',
      },
    ],
    notes:
      'A policy with "ask" puts the questions. y allows who waits now, b makes it a rule of the box, p one of all your boxes over this repository, n refuses.',
    load: () => import('./commands/box-approve.ts'),
  },
  {
    name: 'box attach',
    group: 'box',
    summary: 'follow the command of a box, and give it our input; Ctrl-] leaves it',
    positionals: [box],
    flags: [{ name: 'no-stdin', short: 'n', summary: 'do not read standard input' }, publishFlag],
    passesExitCode: true,
    load: () => import('./commands/box-attach.ts'),
  },
  {
    name: 'box exec',
    group: 'box',
    summary: 'run one more command in a box',
    positionals: [box],
    flags: [environmentFlag, publishFlag, ttyFlag],
    rest: { after: 1, name: 'command' },
    passesExitCode: true,
    notes: exitNotes,
    load: () => import('./commands/box-exec.ts'),
  },
  {
    name: 'box shell',
    group: 'box',
    summary: 'a shell in a box; without a box in a new one over this repository',
    positionals: [{ ...box, optional: true }],
    flags: runFlags,
    passesExitCode: true,
    load: () => import('./commands/box-shell.ts'),
  },
  {
    name: 'box stop',
    group: 'box',
    summary: 'end what runs in boxes; what they wrote stays',
    positionals: [{ ...box, repeats: true }],
    flags: [],
    load: () => import('./commands/box-stop.ts'),
  },
  {
    name: 'box diff',
    group: 'box',
    summary: 'what a box has written over the repository',
    positionals: [box, { name: 'path', kind: 'file', optional: true, repeats: true }],
    flags: [{ name: 'patch', short: 'p', summary: 'show the lines, too' }, placeOf],
    load: () => import('./commands/box-diff.ts'),
  },
  {
    name: 'box apply',
    group: 'box',
    summary: 'bring what a box has written to the repository',
    positionals: [box, { name: 'path', kind: 'file', optional: true, repeats: true }],
    flags: [
      { name: 'interactive', short: 'i', summary: 'ask for each' },
      {
        name: 'held',
        summary:
          'also what is held back: git’s own files, and what editors, agents, shells and pipelines obey',
      },
      { name: 'outside', summary: 'also links that lead out of the repository' },
      { name: 'overwrite', summary: 'also over what was changed here since the box began' },
      { name: 'dry-run', summary: 'tell what would come, and change nothing' },
      { name: 'rm', summary: 'remove the box when all has come' },
      placeOf,
    ],
    notes: 'Each file comes whole, by one rename. What could not come is told, and the exit code is 1.',
    load: () => import('./commands/box-apply.ts'),
  },
  {
    name: 'box discard',
    group: 'box',
    summary: 'throw away what a box has written, and the box',
    positionals: [box],
    flags: [{ name: 'yes', short: 'y', summary: 'do not ask' }],
    load: () => import('./commands/box-discard.ts'),
  },
  {
    name: 'box rm',
    group: 'box',
    summary: 'remove boxes and what they wrote',
    positionals: [{ ...box, repeats: true }],
    flags: [{ name: 'force', short: 'f', summary: 'a box that does not exist is no failure' }],
    load: () => import('./commands/box-rm.ts'),
  },
];
