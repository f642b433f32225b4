/** The commands on processes that run already. */
import type { CommandSpec, PositionalSpec } from './command.ts';

const sandbox: PositionalSpec = { name: 'id', kind: 'sandbox' };
const process: PositionalSpec = { name: 'process', kind: 'process' };

export const processCommands: readonly CommandSpec[] = [
  {
    name: 'ps',
    group: 'command',
    summary: 'list the commands that run in a sandbox, however they were started',
    positionals: [sandbox],
    flags: [
      { name: 'all', short: 'a', summary: 'ended ones, too' },
      { name: 'tag', value: 'NAME', summary: 'only those with this tag' },
      { name: 'quiet', short: 'q', summary: 'numbers only' },
    ],
    load: () => import('./commands/ps.ts'),
  },
  {
    name: 'attach',
    group: 'command',
    summary: 'follow a process from its beginning, and give it our input',
    positionals: [sandbox, process],
    flags: [
      { name: 'after', value: 'N', summary: 'only output behind this byte' },
      { name: 'interactive', short: 'i', summary: 'send standard input even when it is a terminal' },
      { name: 'no-stdin', short: 'n', summary: 'do not read standard input' },
    ],
    passesExitCode: true,
    notes:
      'A process is named by its number or its tag. Leaving it, by Ctrl-C or, where it has a terminal, by Ctrl-], ends nothing. ' +
      'Its exit code passes through.',
    load: () => import('./commands/attach.ts'),
  },
  {
    name: 'wait',
    group: 'command',
    summary: 'wait until a process ends, writes a line, or listens on a port',
    positionals: [sandbox, process],
    flags: [
      { name: 'log', value: 'TEXT', summary: 'for a line with this text; it is printed' },
      { name: 'pattern', value: 'TEXT', summary: 'the same, where * stands for anything' },
      { name: 'port', value: 'N', summary: 'for this port of the sandbox to listen' },
      { name: 'timeout', value: 'SECONDS', summary: 'give up after this long, with exit code 124' },
    ],
    passesExitCode: true,
    load: () => import('./commands/wait.ts'),
  },
  {
    name: 'signal',
    group: 'command',
    summary: 'send a process and its group a signal',
    positionals: [sandbox, process, { name: 'signal', kind: 'text', optional: true }],
    flags: [],
    notes: 'A name such as INT, or a number; TERM unless given.',
    load: () => import('./commands/signal.ts'),
  },
];
