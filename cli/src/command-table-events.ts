/** The rows of `command-table.ts` that concern what sandboxes use, and what happens to them. */
import { eventTypes } from '@squash/contract/event-types';
import type { CommandSpec, FlagSpec, PositionalSpec } from './command.ts';

const webhook: PositionalSpec = { name: 'webhook', kind: 'webhook' };

const typeFlag: FlagSpec = {
  name: 'type',
  value: 'TYPE',
  choices: eventTypes,
  repeats: true,
  summary: 'only events of this type (default all)',
};
const ownerFlag: FlagSpec = { name: 'owner', value: 'NAME', summary: 'only this owner’s sandboxes' };

export const eventCommands: readonly CommandSpec[] = [
  {
    name: 'stats',
    group: 'event',
    summary: 'what sandboxes use of processor, memory, disk and network',
    positionals: [{ name: 'id', kind: 'sandbox', optional: true }],
    flags: [{ name: 'watch', short: 'w', summary: 'go on, every two seconds' }],
    notes: 'A "-" is what is not known. "squash stats <id> --json" has the last ten minutes as well.',
    load: () => import('./commands/stats.ts'),
  },
  {
    name: 'top',
    group: 'event',
    summary: 'what uses the machine, the busiest sandbox first, in place on a terminal',
    positionals: [],
    flags: [{ name: 'once', summary: 'print it once, as where no terminal is' }],
    load: () => import('./commands/top.ts'),
  },
  {
    name: 'events',
    group: 'event',
    summary: 'what happened to sandboxes, also to those that are gone',
    positionals: [],
    flags: [
      { name: 'follow', short: 'f', summary: 'each event as it happens' },
      { name: 'sandbox', value: 'ID', kind: 'sandbox', summary: 'only this sandbox’s' },
      typeFlag,
      ownerFlag,
      { name: 'after', value: 'ID', summary: 'only what has a higher number' },
      { name: 'limit', value: 'N', summary: 'at most so many (default 100)' },
    ],
    load: () => import('./commands/events.ts'),
  },
  {
    name: 'webhook create',
    group: 'event',
    summary: 'have events sent to an address, signed; prints the secret, once',
    positionals: [{ name: 'url', kind: 'text' }],
    flags: [typeFlag, ownerFlag],
    notes: 'squash webhook create https://hooks.example.com/squash --type sandbox.failed',
    load: () => import('./commands/webhook-create.ts'),
  },
  {
    name: 'webhook ls',
    group: 'event',
    summary: 'list webhooks, and how their deliveries go',
    positionals: [],
    flags: [],
    load: () => import('./commands/webhook-ls.ts'),
  },
  {
    name: 'webhook test',
    group: 'event',
    summary: 'send one event now; exits with 1 where it is not taken',
    positionals: [webhook],
    flags: [],
    load: () => import('./commands/webhook-test.ts'),
  },
  {
    name: 'webhook rm',
    group: 'event',
    summary: 'remove webhooks; what was not delivered yet never is',
    positionals: [{ ...webhook, repeats: true }],
    flags: [],
    load: () => import('./commands/webhook-rm.ts'),
  },
];
