/** The rows of `command-table.ts` that concern a sandbox's ports. */
import type { CommandSpec, FlagSpec, PositionalSpec } from './command.ts';

const sandbox: PositionalSpec = { name: 'id', kind: 'sandbox' };

const expiresFlag: FlagSpec = {
  name: 'expires',
  value: 'TIME',
  summary: 'when it ends: 90, 15m, 2h, 7d (default 1h, at most 30d)',
};
const waitFlag: FlagSpec = { name: 'wait', value: 'SECONDS', summary: 'first wait until something listens' };

export const portCommands: readonly CommandSpec[] = [
  {
    name: 'ports',
    group: 'network',
    summary: 'what listens in a sandbox, who may see it, and where',
    positionals: [sandbox],
    flags: [],
    load: () => import('./commands/ports.ts'),
  },
  {
    name: 'url',
    group: 'network',
    summary: 'an address that shows a port of a sandbox to whoever has it',
    positionals: [sandbox, { name: 'port', kind: 'text' }],
    flags: [
      expiresFlag,
      { name: 'public', summary: 'let everybody see the port who reaches the daemon, without a token' },
      { name: 'private', summary: 'take that back; links with tokens go on' },
      waitFlag,
    ],
    load: () => import('./commands/url.ts'),
  },
  {
    name: 'open',
    group: 'network',
    summary: 'show a port of a sandbox in a browser, by a link with a token; prints the link',
    positionals: [sandbox, { name: 'port', kind: 'text' }],
    flags: [expiresFlag, waitFlag, { name: 'print', summary: 'only print the link' }],
    load: () => import('./commands/open.ts'),
  },
  {
    name: 'port-forward',
    group: 'network',
    summary: 'carry connections to ports of this machine into a sandbox, or from it to ports of this machine',
    positionals: [sandbox, { name: '[local:]port', kind: 'text', repeats: true, optional: true }],
    flags: [
      { name: 'bind', value: 'ADDRESS', summary: 'listen on this address of ours (default 127.0.0.1)' },
      {
        name: 'reverse',
        value: '[PORT:]HOST:PORT',
        repeats: true,
        summary: 'let the sandbox reach this place by us, as caller.squash.internal:PORT',
      },
    ],
    notes:
      'squash port-forward dev 5432 8000:80; goes on until Ctrl-C. Local port 0 takes a free one. squash port-forward dev --reverse 5432:localhost:5432 needs caller.squash.internal:5432 in the policy.',
    load: () => import('./commands/port-forward.ts'),
  },
];
