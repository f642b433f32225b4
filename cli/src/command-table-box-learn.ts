/** The row of `command-table.ts` for the policy that a run would have needed. */
import { exitNotes, runFlags } from './command-table-box.ts';
import type { CommandSpec } from './command.ts';

/** Of a run that shows nothing of itself: it has to be waited for. */
const notOfIt = ['detach', 'print-policy', 'dry-run', 'trace-paths', 'nesting'];

export const boxLearnCommands: readonly CommandSpec[] = [
  {
    name: 'box learn',
    group: 'box',
    summary:
      'run a command in a box, and propose the smallest policy for what it was refused; grants nothing',
    positionals: [{ name: 'box', kind: 'box', optional: true }],
    flags: [
      ...runFlags.filter(({ name }) => !notOfIt.includes(name)),
      { name: 'output', short: 'o', value: 'FILE', kind: 'file', summary: 'write the proposal here' },
    ],
    rest: { after: 1, name: 'command', optional: true },
    passesExitCode: true,
    notes: `squash box learn -- make test; squash box learn -o wanted.json -- npm ci; with a box instead of a command: of what that was refused so far.
The proposal is a policy file for --policy. What is never proposed is told on standard error. Read it: a program asks for what it wants, not for what it should have.
${exitNotes}`,
    load: () => import('./commands/box-learn.ts'),
  },
];
