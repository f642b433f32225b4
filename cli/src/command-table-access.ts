/** The rows of `command-table.ts` that concern who may ask, for what, and who has asked: keys, owners, quotas, the audit. */
import type { CommandSpec, PositionalSpec } from './command.ts';

const owner: PositionalSpec = { name: 'owner', kind: 'owner' };
const scopes = ['read', 'exec', 'manage', 'admin'] as const;

export const accessCommands: readonly CommandSpec[] = [
  {
    name: 'whoami',
    group: 'access',
    summary: 'the key that you ask with, its owner, and what that owner may have and has',
    positionals: [],
    flags: [],
    load: () => import('./commands/whoami.ts'),
  },
  {
    name: 'keys create',
    group: 'access',
    summary: 'make a key; its token is printed this once',
    positionals: [{ name: 'name', kind: 'text' }],
    flags: [
      { name: 'owner', value: 'OWNER', kind: 'owner', summary: 'whose sandboxes it sees and makes' },
      {
        name: 'scope',
        value: 'SCOPE',
        choices: scopes,
        summary: 'read, exec, manage or admin: each includes those before it',
      },
      {
        name: 'expires',
        value: 'WHEN',
        summary: 'after 12h or 30d, or at 2030-01-31T12:00:00Z (default never)',
      },
    ],
    notes:
      'squash keys create ci --owner team-a --scope exec --expires 30d. Whoever uses it sets SQUASH_AUTH_TOKEN to the token.',
    load: () => import('./commands/keys-create.ts'),
  },
  {
    name: 'keys ls',
    group: 'access',
    summary: 'list keys, without their tokens',
    positionals: [],
    flags: [{ name: 'owner', value: 'OWNER', kind: 'owner', summary: 'only this owner’s' }],
    load: () => import('./commands/keys-ls.ts'),
  },
  {
    name: 'keys rm',
    group: 'access',
    summary: 'remove keys: the next request with one is refused, what it has open ends',
    positionals: [{ name: 'id', kind: 'key', repeats: true }],
    flags: [],
    load: () => import('./commands/keys-rm.ts'),
  },
  {
    name: 'owners ls',
    group: 'access',
    summary: 'list who has sandboxes, keys or a quota, and how much of it is used',
    positionals: [],
    flags: [],
    load: () => import('./commands/owners-ls.ts'),
  },
  {
    name: 'quota show',
    group: 'access',
    summary: 'what an owner may have, and has',
    positionals: [owner],
    flags: [],
    load: () => import('./commands/quota-show.ts'),
  },
  {
    name: 'quota set',
    group: 'access',
    summary: 'replace what an owner may have; what is left out is not bounded',
    positionals: [owner],
    flags: [
      { name: 'sandboxes', value: 'N', summary: 'sandboxes that exist' },
      { name: 'memory', short: 'm', value: 'MIB', summary: 'memory of all of them together' },
      { name: 'cpu', value: 'CPUS', summary: 'processors of all of them together' },
      { name: 'disk', value: 'MIB', summary: 'what they may write, and their snapshots' },
      { name: 'execs', value: 'N', summary: 'commands that run at once' },
      { name: 'none', summary: 'no bounds at all' },
    ],
    load: () => import('./commands/quota-set.ts'),
  },
  {
    name: 'audit',
    group: 'access',
    summary: 'who asked for what, and whether he might; newest first',
    positionals: [],
    flags: [
      { name: 'owner', value: 'OWNER', kind: 'owner', summary: 'only what this owner’s keys asked' },
      { name: 'sandbox', value: 'ID', kind: 'sandbox', summary: 'only about this sandbox' },
      { name: 'operation', value: 'ID', summary: 'only this operation, such as sandbox.create' },
      { name: 'refused', summary: 'only what was refused' },
      { name: 'agents', summary: 'what agents of groups asked for, with the rule that decided' },
      { name: 'since', value: 'WHEN', summary: 'only of the last 30m, 12h or 7d, or from a time on' },
      { name: 'limit', value: 'N', summary: 'at most so many (default 100)' },
    ],
    load: () => import('./commands/audit.ts'),
  },
];
