/** The row of `command-table.ts` for SSH. */
import type { CommandSpec } from './command.ts';

export const sshCommands: readonly CommandSpec[] = [
  {
    name: 'ssh',
    group: 'command',
    summary:
      'OpenSSH’s client into a sandbox, and the lines with which ssh, scp, rsync, git and editors reach it',
    positionals: [{ name: 'id', kind: 'sandbox', optional: true }],
    flags: [
      { name: 'config', summary: 'print the lines for ~/.ssh/config: then ID.squash is a host' },
      {
        name: 'write',
        value: 'FILE',
        kind: 'file',
        summary: 'put them into this file instead, in place of older ones',
      },
      { name: 'stdio', summary: 'speak SSH on standard input and output, as ProxyCommand wants it' },
    ],
    rest: { after: 1, name: 'command', optional: true },
    passesExitCode: true,
    notes:
      'squash ssh dev; squash ssh alice@dev uname -a; squash ssh dev -- -L 8080:localhost:80 -N. The words are ssh’s own. Nothing listens: ssh speaks to us over a pipe.',
    load: () => import('./commands/ssh.ts'),
  },
];
