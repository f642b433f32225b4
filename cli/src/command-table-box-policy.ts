/** The rows of `command-table.ts` that concern the policies of boxes: files, why something is as it is, trust. */
import type { CommandSpec, FlagSpec } from './command.ts';

export const policyFileFlag: FlagSpec = {
  name: 'policy',
  value: 'FILE',
  kind: 'file',
  repeats: true,
  summary: 'a policy file of your own beside those of this machine',
};

const partialFlag: FlagSpec = {
  name: 'partial',
  summary: 'with import: leave out what can’t be had, and tell what it was',
};

export const boxPolicyCommands: readonly CommandSpec[] = [
  {
    name: 'box policy',
    group: 'box',
    summary: 'the policy of boxes here: show it, check its files, compare two, take over settings of others',
    positionals: [
      { name: 'show|check|diff|import', kind: 'text', choices: ['show', 'check', 'diff', 'import'] },
      { name: 'file', kind: 'file', optional: true, repeats: true },
    ],
    flags: [policyFileFlag, partialFlag],
    notes: `squash box policy diff default current; beside files there are "default", without any, and "current", with those found here.
"check" exits with 1 where a file is wrong or a rule would not hold. docs/local-run.md has the form.
squash box policy import srt [FILE], import deer [FILE]: settings of Anthropic's Sandbox Runtime or of deer, as a policy file on standard output.`,
    load: () => import('./commands/box-policy.ts'),
  },
  {
    name: 'box why',
    group: 'box',
    summary: 'which rule decides about a path or a host, and where it stands',
    positionals: [
      { name: 'path|host', kind: 'text', choices: ['path', 'host'] },
      { name: 'what', kind: 'file', optional: true },
    ],
    flags: [policyFileFlag],
    notes: 'squash box why path ~/.ssh; squash box why host api.github.com:443',
    load: () => import('./commands/box-why.ts'),
  },
  {
    name: 'box trust',
    group: 'box',
    summary: 'agree to what this repository’s policy file opens, as it is now',
    positionals: [
      { name: 'show|add|revoke', kind: 'text', choices: ['show', 'add', 'revoke'], optional: true },
    ],
    flags: [{ name: 'yes', short: 'y', summary: 'with add: do not ask' }],
    notes:
      'Without it the file closes and limits, and opens nothing. A file that changes is no longer trusted.',
    load: () => import('./commands/box-trust.ts'),
  },
];
