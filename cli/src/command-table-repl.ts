/** The row of `command-table.ts` for interpreters: see docs/interpreter.md. */
import type { CommandSpec } from './command.ts';
import { createFlags } from './command-table-sandbox.ts';

export const replLanguages = ['python', 'javascript', 'typescript'] as const;

export const replCommands: readonly CommandSpec[] = [
  {
    name: 'repl',
    group: 'command',
    summary: 'type code into an interpreter that keeps what it knows',
    positionals: [{ name: 'id', kind: 'sandbox', optional: true }],
    flags: [
      {
        name: 'language',
        value: 'NAME',
        choices: replLanguages,
        summary: 'python (default), javascript or typescript',
      },
      {
        name: 'context',
        value: 'NAME',
        kind: 'context',
        summary: 'a context of the sandbox other than the language’s default; made where there is none',
      },
      { name: 'new', summary: 'begin with a context that knows nothing' },
      { name: 'list', summary: 'list the contexts of the sandbox instead' },
      { name: 'timeout', value: 'SECONDS', summary: 'interrupt a cell after this long (default 3600)' },
      {
        name: 'file',
        value: 'PATH',
        kind: 'file',
        repeats: true,
        summary: 'take this file or directory of ours along, to where the interpreter starts',
      },
      ...createFlags,
      { name: 'keep', summary: 'do not destroy the new sandbox; its id goes to standard error' },
    ],
    notes:
      'Without <id> in a sandbox of its own, destroyed at the end. With one the context stays, with all that it knows: .remove ends it.\n' +
      'What comes by a pipe is one cell: echo "print(6 * 7)" | squash repl. Exits with 1 where it fails, with 124 where its time is over.',
    load: () => import('./commands/repl.ts'),
  },
];
