/**
 * Every command of the CLI in one table: what it is called, what it takes, and where its code is. The rows of the
 * network's commands, of files', of those about access, of processes' and of codemode's are in files of their own.
 *
 * Parsing, help and completion are made from these rows. The code is imported when the command is called, never
 * here: that is what keeps `squash ls` as fast as Node starts.
 */
import { globalFlags } from './arguments.ts';
import type { CommandSpec, FlagSpec, PositionalSpec } from './command.ts';
import { accessCommands } from './command-table-access.ts';
import { approvalCommands } from './command-table-approvals.ts';
import { boxCommands } from './command-table-box.ts';
import { boxLearnCommands } from './command-table-box-learn.ts';
import { boxGitCommands } from './command-table-box-git.ts';
import { boxPolicyCommands } from './command-table-box-policy.ts';
import { bucketCommands } from './command-table-bucket.ts';
import { certificateCommands } from './command-table-certificate.ts';
import { codemodeCommands } from './command-table-codemode.ts';
import { eventCommands } from './command-table-events.ts';
import { layerCommands } from './command-table-layer.ts';
import { fileCommands } from './command-table-files.ts';
import { mcpCommands } from './command-table-mcp.ts';
import { buildCommands } from './command-table-build.ts';
import { imageCommands } from './command-table-images.ts';
import { moduleCommands } from './command-table-modules.ts';
import { networkCommands } from './command-table-network.ts';
import { portCommands } from './command-table-ports.ts';
import { processCommands } from './command-table-processes.ts';
import { replCommands } from './command-table-repl.ts';
import { srtCommands } from './command-table-srt.ts';
import { sshCommands } from './command-table-ssh.ts';
import { createFlags, imageFlag, sandboxCommands } from './command-table-sandbox.ts';
import { groupCommands } from './command-table-groups.ts';
import { scheduleCommands } from './command-table-schedules.ts';
import { volumeCommands } from './command-table-volumes.ts';
import { inOtherNumberOf, listOf } from './other-names.ts';
import { isLayerList } from './run-words.ts';

const sandbox: PositionalSpec = { name: 'id', kind: 'sandbox' };

const execFlags: readonly FlagSpec[] = [
  { name: 'workdir', short: 'w', value: 'PATH', summary: 'directory to start in' },
  {
    name: 'env',
    short: 'e',
    value: 'NAME=VALUE',
    repeats: true,
    summary: 'set a variable; NAME alone copies ours',
  },
  {
    name: 'user',
    short: 'u',
    value: 'USER',
    summary: 'run as this user of the sandbox: UID, UID:GID or a name (default 0)',
  },
  { name: 'timeout', value: 'SECONDS', summary: 'end it after this long, with exit code 124' },
  { name: 'tty', short: 't', summary: 'give it a terminal' },
  { name: 'interactive', short: 'i', summary: 'send standard input even when it is a terminal' },
  { name: 'no-stdin', short: 'n', summary: 'do not read standard input' },
];

const shellFlag: FlagSpec = {
  name: 'shell',
  short: 'c',
  value: 'TEXT',
  summary: 'run this text with /bin/sh',
};

const execNotes = `The command's exit code passes through; 128 + N where signal N ended it. Squash's own: 124 timed out,
125 Squash failed, 126 can't be run, 127 not found. Standard input is sent when it is no terminal; in a loop
that reads its list from standard input give -n.`;

const runNotes = `Without <layers> it gets a base and what the command needs: squash run python script.py; the script is taken along.
With --image and no command it is the image's own: squash run --image redis:7
Before a harness's commands: squash run --id dev --workdir /root/app -- make test`;

export const commandTable: readonly CommandSpec[] = [
  {
    name: 'quickstart',
    group: 'daemon',
    summary: 'from nothing to a command in a sandbox; again: seconds',
    positionals: [],
    flags: [],
    load: () => import('./commands/quickstart.ts'),
  },
  {
    name: 'serve',
    group: 'daemon',
    summary: 'run the daemon',
    positionals: [],
    flags: [
      { name: 'detach', short: 'd', summary: 'go to the background when it is ready' },
      { name: 'log', value: 'FILE', kind: 'file', summary: 'with --detach: append its log here' },
    ],
    notes: 'Configured by SQUASH_* variables; see docs/configuration.md.',
    load: () => import('./commands/serve.ts'),
  },
  {
    name: 'stop',
    group: 'daemon',
    summary: 'stop the daemon; sandboxes go on',
    positionals: [],
    flags: [{ name: 'all', summary: 'end the sandboxes’ processes and the launcher too; their files stay' }],
    load: () => import('./commands/stop.ts'),
  },
  {
    name: 'doctor',
    group: 'daemon',
    summary: 'what this host offers, what is weaker for it, and how to mend it',
    positionals: [],
    flags: [
      { name: 'config', summary: 'show the effective configuration and where each value comes from' },
      { name: 'repair', summary: 'rebuild the state database from disk; the daemon must be stopped' },
    ],
    notes: 'Exits with 1 when something that is required is missing.',
    load: () => import('./commands/doctor.ts'),
  },
  {
    name: 'demo',
    group: 'daemon',
    summary: 'a sandbox attacks this machine, and each attempt is told with what stopped it',
    positionals: [],
    flags: [],
    notes:
      'Takes some seconds, needs no Internet and removes what it made. Exits with 1 when something got through.',
    load: () => import('./commands/demo.ts'),
  },
  ...certificateCommands,
  ...sandboxCommands,
  {
    name: 'exec',
    group: 'command',
    summary: 'run a command in a sandbox',
    positionals: [sandbox],
    flags: [
      ...execFlags,
      shellFlag,
      { name: 'detach', short: 'd', summary: 'start it in the background and print its number' },
      { name: 'tag', value: 'NAME', summary: 'with --detach: a name to find it by' },
    ],
    rest: { after: 1, name: 'command', optional: true },
    passesExitCode: true,
    notes: execNotes,
    load: () => import('./commands/exec.ts'),
  },
  {
    name: 'shell',
    group: 'command',
    summary: 'an interactive shell in a sandbox',
    positionals: [sandbox],
    flags: execFlags.filter((flag) => ['workdir', 'env', 'user'].includes(flag.name)),
    passesExitCode: true,
    load: () => import('./commands/shell.ts'),
  },
  {
    name: 'run',
    group: 'command',
    summary: 'make a sandbox, run one command in it, destroy it',
    positionals: [{ name: 'layers', kind: 'module', optional: true }],
    flags: [
      ...createFlags,
      imageFlag,
      ...execFlags,
      shellFlag,
      { name: 'id', value: 'ID', kind: 'sandbox', summary: 'run it in this sandbox, which stays' },
      {
        name: 'file',
        value: 'PATH',
        kind: 'file',
        repeats: true,
        summary: 'take this file or directory of ours along, to where the command starts',
      },
      { name: 'keep', summary: 'do not destroy it; its id goes to standard error' },
    ],
    rest: { after: 1, name: 'command', optional: true, begins: (word) => !isLayerList(word) },
    passesExitCode: true,
    notes: `${runNotes}\n\n${execNotes}`,
    load: () => import('./commands/run.ts'),
  },
  ...replCommands,
  {
    name: 'logs',
    group: 'command',
    summary: 'what ran in a sandbox, and its output',
    positionals: [sandbox, { name: 'process', kind: 'process', optional: true }],
    flags: [
      { name: 'follow', short: 'f', summary: 'a command’s output as it comes, until it ends' },
      {
        name: 'after',
        value: 'N',
        summary: 'only what has a higher number; with --follow: bytes, of a job of the original API lines',
      },
      { name: 'limit', value: 'N', summary: 'at most so many commands, the oldest first' },
    ],
    notes:
      'Without a number or a tag: a table of commands. With one: that command’s output, each stream where it belongs.',
    load: () => import('./commands/logs.ts'),
  },
  {
    name: 'jobs',
    group: 'command',
    summary: 'list background commands',
    positionals: [sandbox],
    flags: [],
    load: () => import('./commands/jobs.ts'),
  },
  {
    name: 'job kill',
    group: 'command',
    summary: 'end a background command: TERM, 2 s, KILL',
    positionals: [sandbox, { name: 'job', kind: 'job', repeats: true }],
    flags: [],
    load: () => import('./commands/job-kill.ts'),
  },
  ...boxCommands,
  ...boxGitCommands,
  ...boxPolicyCommands,
  ...boxLearnCommands,
  ...srtCommands,
  ...fileCommands,
  {
    name: 'activate',
    group: 'layer',
    summary: 'stack another module on a sandbox; its running commands end',
    positionals: [sandbox, { name: 'module', kind: 'module' }],
    flags: [],
    load: () => import('./commands/activate.ts'),
  },
  ...layerCommands,
  ...moduleCommands,
  ...imageCommands,
  ...buildCommands,
  ...processCommands,
  ...sshCommands,
  ...eventCommands,
  ...bucketCommands,
  ...volumeCommands,
  ...groupCommands,
  ...scheduleCommands,
  ...networkCommands,
  ...portCommands,
  ...accessCommands,
  ...approvalCommands,
  ...codemodeCommands,
  ...mcpCommands,
  {
    name: 'version',
    group: 'other',
    summary: 'this program’s version and the daemon’s',
    positionals: [],
    flags: [{ name: 'offline', summary: 'do not ask the daemon' }],
    load: () => import('./commands/version.ts'),
  },
  {
    name: 'completion',
    group: 'other',
    summary: 'a completion script for a shell',
    positionals: [{ name: 'bash|zsh|fish', kind: 'text', choices: ['bash', 'zsh', 'fish'] }],
    flags: [],
    notes: 'bash: source <(squash completion bash)   zsh: the same   fish: squash completion fish | source',
    load: () => import('./commands/completion.ts'),
  },
  {
    name: 'help',
    group: 'other',
    summary: 'help on a command',
    positionals: [{ name: 'command', kind: 'command', optional: true, repeats: true }],
    flags: [],
    load: () => import('./commands/help.ts'),
  },
  {
    name: '__complete',
    group: 'other',
    summary: 'the words that may stand at the end of a line',
    positionals: [],
    flags: [],
    rest: { after: 0, name: 'words', optional: true },
    hidden: true,
    load: () => import('./commands/complete.ts'),
  },
  {
    name: '__sq-ctl',
    group: 'other',
    summary: 'the original’s sq-ctl',
    positionals: [],
    flags: [],
    rest: { after: 0, name: 'words', optional: true },
    hidden: true,
    load: () => import('./commands/sq-ctl.ts'),
  },
];

/** Without those that other programs call. */
export function knownCommands(): readonly CommandSpec[] {
  return commandTable.filter((spec) => spec.hidden !== true);
}

interface FoundCommand {
  readonly spec: CommandSpec;
  /** Without its name. */
  readonly words: readonly string[];
  /** Not written out: `squash keys` lists them, and may still become `squash keys rm`. */
  readonly isImplied?: true;
}

/**
 * The command that these words call, and the words without its name. Global options may stand before the name, as in
 * `squash --json ls`.
 */
export function findCommand(words: readonly string[]): FoundCommand | undefined {
  let at = 0;
  while (at < words.length && words[at]?.startsWith('-') === true && words[at] !== '--') {
    const takesNext = globalFlags.some((flag) => flag.value !== undefined && words[at] === `--${flag.name}`);
    at += takesNext ? 2 : 1;
  }
  const before = words.slice(0, at);
  const own = words.slice(at);
  const named = (count: number): CommandSpec | undefined => {
    const name = own.slice(0, count).join(' ');
    return commandTable.find((each) => each.name === name);
  };
  const ofTwo = named(2) ?? inOtherNumberOf(own, commandTable);
  if (ofTwo !== undefined) return { spec: ofTwo, words: [...before, ...own.slice(2)] };
  const ofOne = named(1);
  const rest = [...before, ...own.slice(1)];
  if (ofOne !== undefined) return { spec: ofOne, words: rest };
  const list = listOf(own, commandTable);
  return list === undefined ? undefined : { spec: list, words: rest, isImplied: true };
}
