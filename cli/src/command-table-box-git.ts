/** The rows of `command-table.ts` that concern git in boxes: commits that come out of one. */
import { boxCommands } from './command-table-box.ts';
import type { CommandSpec, FlagSpec, PositionalSpec } from './command.ts';

const box: PositionalSpec = { name: 'box', kind: 'box' };

const agentFlags = [
  'branch',
  'base',
  'detach',
  'policy',
  'net',
  'env',
  'name',
  'memory',
  'cpu',
  'processes',
  'time',
  'nesting',
];
const ofRun: readonly FlagSpec[] =
  boxCommands.find(({ name }) => name === 'box run')?.flags.filter(({ name }) => agentFlags.includes(name)) ??
  [];

export const boxGitCommands: readonly CommandSpec[] = [
  {
    name: 'box commits',
    group: 'box',
    summary: 'what commits a box has that are not here',
    positionals: [box],
    flags: [],
    load: () => import('./commands/box-commits.ts'),
  },
  {
    name: 'box fetch',
    group: 'box',
    summary: 'bring branches of a box to this repository, as box/BOX/BRANCH',
    positionals: [box, { name: 'branch', kind: 'text', optional: true, repeats: true }],
    flags: [
      { name: 'as', value: 'NAME', summary: 'call the branch this here; for one branch' },
      { name: 'force', short: 'f', summary: 'also where a branch of that name here has other commits' },
      { name: 'size', value: 'MIB', summary: 'take no more than this of the box (default 512)' },
      { name: 'time', value: 'TIME', summary: 'wait no longer for the box (default 2m)' },
    ],
    notes:
      'Without a branch: all that have commits which are not here. What is checked out here is never moved.',
    load: () => import('./commands/box-fetch.ts'),
  },
  {
    name: 'box merge',
    group: 'box',
    summary: 'merge what a box has done into the branch that is checked out here',
    positionals: [box],
    flags: [
      { name: 'message', short: 'm', value: 'TEXT', summary: 'what the commits say that this makes' },
      {
        name: 'held',
        summary:
          'also what is held back: git’s own files, and what editors, agents, shells and pipelines obey',
      },
      { name: 'rm', summary: 'remove the box when it is merged' },
    ],
    notes: 'What is not committed in the box is committed there first. On a conflict nothing here changes.',
    load: () => import('./commands/box-merge.ts'),
  },
  {
    name: 'box agent',
    group: 'box',
    summary: 'a coding agent in a box, on a branch of its own; without words: the agents it knows',
    positionals: [
      {
        name: 'agent',
        kind: 'text',
        choices: ['claude', 'codex', 'gemini', 'opencode', 'aider'],
        optional: true,
      },
      { name: 'prompt', kind: 'text', optional: true, repeats: true },
    ],
    flags: [{ name: 'model', value: 'MODEL', summary: 'the model, in the agent’s words' }, ...ofRun],
    // Whatever stands before `--` is ours.
    rest: { after: 1_000, name: 'command', optional: true },
    passesExitCode: true,
    notes: `squash box agent claude 'mend the tests'; squash box agent -- make fix. It asks nothing, for the box is around it, and reaches its model.
Its key (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY) goes in as a placeholder. At the end you are asked: merge, diff, keep or discard.`,
    load: () => import('./commands/box-agent.ts'),
  },
];
