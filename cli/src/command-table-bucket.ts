/** The rows of `command-table.ts` that concern the bucket. */
import type { CommandSpec, PositionalSpec } from './command.ts';

const what: PositionalSpec = { name: 'what', kind: 'module', repeats: true };
const notes = 'A module is named as it is, a snapshot ID/LABEL: squash s3 push 300-tools dev/clean.';

export const bucketCommands: readonly CommandSpec[] = [
  {
    name: 's3 status',
    group: 'layer',
    summary: 'which bucket there is, and whether it does what is asked of it',
    positionals: [],
    flags: [],
    load: () => import('./commands/s3-status.ts'),
  },
  {
    name: 's3 ls',
    group: 'layer',
    summary: 'what lies in the bucket',
    positionals: [{ name: 'prefix', kind: 'text', optional: true }],
    flags: [{ name: 'quiet', short: 'q', summary: 'keys only' }],
    load: () => import('./commands/s3-ls.ts'),
  },
  {
    name: 's3 push',
    group: 'layer',
    summary: 'bring modules and snapshots to the bucket now',
    positionals: [what],
    flags: [{ name: 'replace', summary: 'take the place of another one that is there' }],
    notes,
    load: () => import('./commands/s3-push.ts'),
  },
  {
    name: 's3 pull',
    group: 'layer',
    summary: 'bring modules and snapshots from the bucket now',
    positionals: [what],
    flags: [],
    notes,
    load: () => import('./commands/s3-pull.ts'),
  },
  {
    name: 's3 sync',
    group: 'layer',
    summary: 'push what is here alone and pull what is there alone: modules, or the snapshots of sandboxes',
    positionals: [{ name: 'id', kind: 'sandbox', optional: true, repeats: true }],
    flags: [],
    load: () => import('./commands/s3-sync.ts'),
  },
  {
    name: 's3 rm',
    group: 'layer',
    summary: 'remove objects from the bucket, for every machine; with "/" at the end all below it',
    positionals: [{ name: 'key', kind: 'text', repeats: true }],
    flags: [],
    load: () => import('./commands/s3-rm.ts'),
  },
];
