/** The rows of `command-table.ts` about what waits for a person. */
import type { CommandSpec, FlagSpec } from './command.ts';

const ofSandbox: FlagSpec = { name: 'sandbox', value: 'ID', kind: 'sandbox', summary: 'only of this one' };
const reason: FlagSpec = { name: 'reason', value: 'TEXT', summary: 'for whoever looks back' };

export const approvalCommands: readonly CommandSpec[] = [
  {
    name: 'approve',
    group: 'network',
    summary: 'answer what sandboxes and agents of groups wait for, one question after the other',
    positionals: [],
    flags: [{ name: 'watch', short: 'w', summary: 'go on with each question as it comes' }, ofSandbox],
    notes:
      'A policy with "ask" puts the questions. y allows who waits now, s makes it a rule of the sandbox, a one for all sandboxes that ask, n refuses. What a tier has agents ask for is put as well, but with --sandbox: y has it done, n refuses.',
    load: () => import('./commands/approve.ts'),
  },
  {
    name: 'approvals ls',
    group: 'network',
    summary: 'list what waits for an answer, and what was decided lately',
    positionals: [],
    flags: [
      {
        name: 'state',
        value: 'STATE',
        choices: ['pending', 'allowed', 'denied', 'timed_out', 'withdrawn'],
        summary: 'pending, allowed, denied, timed_out or withdrawn',
      },
      ofSandbox,
      { name: 'limit', value: 'N', summary: 'at most so many (default 100)' },
    ],
    load: () => import('./commands/approvals-ls.ts'),
  },
  {
    name: 'approvals allow',
    group: 'network',
    summary: 'let through what waits',
    positionals: [{ name: 'approval', kind: 'text' }],
    flags: [
      {
        name: 'scope',
        value: 'SCOPE',
        choices: ['once', 'sandbox', 'always'],
        summary: 'once (default), sandbox (a rule of its policy) or always (all sandboxes that ask)',
      },
      reason,
    ],
    load: () => import('./commands/approvals-allow.ts'),
  },
  {
    name: 'approvals deny',
    group: 'network',
    summary: 'refuse what waits',
    positionals: [{ name: 'approval', kind: 'text' }],
    flags: [reason],
    load: () => import('./commands/approvals-deny.ts'),
  },
  {
    name: 'approvals rules',
    group: 'network',
    summary: 'list what is approved for all sandboxes that ask',
    positionals: [],
    flags: [{ name: 'remove', value: 'N', summary: 'take this one out: it is asked for again' }],
    load: () => import('./commands/approvals-rules.ts'),
  },
];
