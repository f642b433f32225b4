/** The row of `command-table.ts` that builds images: see `build/`. */
import type { CommandSpec, FlagSpec } from './command.ts';
import { createFlags } from './command-table-sandbox.ts';

/** What the sandboxes of steps are made with. */
const made = ['cpu', 'memory', 'allow-net', 'policy', 'owner', 'upstream'];

export const buildFlags: readonly FlagSpec[] = [
  {
    name: 'file',
    short: 'f',
    value: 'FILE',
    kind: 'file',
    summary: 'the Dockerfile, or - for standard input; default: Dockerfile in the context',
  },
  {
    name: 'build-arg',
    value: 'NAME=VALUE',
    repeats: true,
    summary: 'the value of an ARG; NAME alone copies ours',
  },
  {
    name: 'secret',
    value: 'id=ID[,src=FILE|,env=NAME]',
    repeats: true,
    summary: 'what RUN --mount=type=secret,id=ID gets, and no layer holds',
  },
  { name: 'target', value: 'STAGE', summary: 'build up to this stage' },
  { name: 'no-cache', summary: 'do every step, whatever was done before' },
  { name: 'quiet', short: 'q', summary: 'no steps and none of their output, unless one fails' },
  ...createFlags.filter(({ name }) => made.includes(name)),
];

export const buildCommands: readonly CommandSpec[] = [
  {
    name: 'build',
    group: 'layer',
    summary: 'build an image from a Dockerfile, each step in a sandbox of its own',
    positionals: [{ name: 'context', kind: 'file', optional: true }],
    flags: [
      { name: 'tag', short: 't', value: 'NAME', kind: 'image', summary: 'what the image is called' },
      ...buildFlags,
      { name: 'prune', summary: 'remove what builds keep of their steps, and build nothing' },
    ],
    notes:
      'squash build -t tools:1 . && squash run --image tools:1 ls. A step that was done before, on the same and with the same, is not done again. --allow-net and --policy say what steps reach.',
    load: () => import('./commands/build.ts'),
  },
];
