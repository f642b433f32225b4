/** The row of `command-table.ts` for the command line of Anthropic's Sandbox Runtime. */
import type { CommandSpec } from './command.ts';

export const srtCommands: readonly CommandSpec[] = [
  {
    name: 'srt',
    group: 'box',
    summary: 'the command line of Anthropic’s Sandbox Runtime: a command in a box, by its settings',
    positionals: [],
    flags: [
      { name: 'debug', short: 'd', summary: 'tell what of the settings means something else here' },
      {
        name: 'settings',
        short: 's',
        value: 'PATH',
        kind: 'file',
        summary: 'its settings (default ~/.srt-settings.json; without it: no network, nothing to write)',
      },
      { name: 'command', short: 'c', value: 'TEXT', summary: 'run this text with bash, as it is' },
      {
        name: 'control-fd',
        value: 'N',
        summary:
          'read settings from this descriptor, one JSON a line: the network of the command changes by them',
      },
      {
        name: 'session',
        value: 'PATH',
        kind: 'file',
        summary: 'the socket of a program that wraps commands with @squash/sdk/srt; its settings count',
      },
      { name: 'version', summary: 'print the version of Squash' },
    ],
    rest: { after: 0, name: 'command', optional: true },
    passesExitCode: true,
    failsWith: 1,
    notes: `The command's exit code passes through; what fails before it runs exits with 1, and a Ctrl-C or SIGTERM to srt itself with 0.
docs/local-run.md has the settings, field by field.`,
    load: () => import('./commands/srt.ts'),
  },
];
