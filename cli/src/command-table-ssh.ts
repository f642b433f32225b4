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
      { name: 'fingerprint', summary: 'of the gateway’s host key, and where it listens' },
      { name: 'stdio', summary: 'speak SSH on standard input and output, as ProxyCommand wants it' },
    ],
    rest: { after: 1, name: 'command', optional: true },
    passesExitCode: true,
    notes:
      'squash ssh dev; squash ssh alice@dev uname -a; squash ssh dev -- -L 8080:localhost:80 -N. The words are ssh’s own. Nothing listens: ssh speaks to us over a pipe.',
    load: () => import('./commands/ssh.ts'),
  },
  {
    name: 'ssh-key add',
    group: 'access',
    summary: 'let a public key log in at the SSH gateway',
    positionals: [{ name: 'file', kind: 'file' }],
    flags: [
      { name: 'owner', value: 'OWNER', kind: 'owner', summary: 'whose sandboxes it reaches' },
      { name: 'name', value: 'NAME', summary: 'what it is for (default: the key’s comment)' },
      { name: 'scope', value: 'SCOPE', choices: ['exec', 'manage'], summary: 'exec unless given' },
      {
        name: 'expires',
        value: 'WHEN',
        summary: 'after 12h or 30d, or at 2030-01-31T12:00:00Z (default never)',
      },
    ],
    notes: 'squash ssh-key add ~/.ssh/id_ed25519.pub --owner team-a. The file may be - for standard input.',
    load: () => import('./commands/ssh-key-add.ts'),
  },
  {
    name: 'ssh-key ls',
    group: 'access',
    summary: 'list public keys that log in over SSH',
    positionals: [],
    flags: [{ name: 'owner', value: 'OWNER', kind: 'owner', summary: 'only this owner’s' }],
    load: () => import('./commands/ssh-key-ls.ts'),
  },
  {
    name: 'ssh-key rm',
    group: 'access',
    summary: 'remove public keys: nobody logs in with one, what it has open ends',
    positionals: [{ name: 'id', kind: 'sshKey', repeats: true }],
    flags: [],
    load: () => import('./commands/ssh-key-rm.ts'),
  },
];
