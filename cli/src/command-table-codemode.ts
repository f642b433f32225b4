/** The rows of `command-table.ts` that run programs which models wrote: see `codemode/`. */
import type { CommandSpec, FlagSpec } from './command.ts';

const toolsFlag: FlagSpec = {
  name: 'tools',
  value: 'FILE',
  kind: 'file',
  summary: 'an mcpServers file: the MCP servers whose tools the program may call',
};
const codemodeFlags: readonly FlagSpec[] = [
  toolsFlag,
  {
    name: 'executor',
    value: 'NAME',
    choices: ['sandbox', 'quickjs', 'isolated-vm', 'deno', 'container', 'vm2'],
    summary:
      'sandbox (default where a daemon runs), quickjs (default else), isolated-vm, deno, container or vm2',
  },
  { name: 'timeout', value: 'SECONDS', summary: 'end a program, or a tool, after this long (default 30)' },
  { name: 'memory', short: 'm', value: 'MB', summary: 'memory of a program (default 128)' },
  { name: 'allow-weak-isolation', summary: 'vm2 is no security boundary: say that you know' },
];

export const codemodeCommands: readonly CommandSpec[] = [
  {
    name: 'codemode run',
    group: 'other',
    summary: 'run a program that a model wrote, with the tools of MCP servers',
    positionals: [{ name: 'file', kind: 'file', optional: true }],
    flags: [
      ...codemodeFlags,
      { name: 'input', value: 'JSON', summary: 'the program sees it as the global input' },
      {
        name: 'ask',
        value: 'GLOB',
        repeats: true,
        summary: 'tools whose calls wait for an answer on the terminal: codemode.files.write*, say',
      },
    ],
    notes:
      'Without a file, or with -, the program comes from standard input. Its result goes to standard output, its log to standard error. What is returned is carried as JSON. With --json the whole answer of the run is printed, also of a program that failed.',
    load: () => import('./commands/codemode-run.ts'),
  },
  {
    name: 'codemode serve',
    group: 'other',
    summary: 'an MCP server that offers execute and search over other MCP servers',
    positionals: [],
    flags: [
      ...codemodeFlags,
      {
        name: 'deny',
        value: 'GLOB',
        repeats: true,
        summary: 'tools no program may call: codemode.files.write* of a server files, say; has to match one',
      },
      { name: 'http', value: 'PORT', summary: 'serve over HTTP on 127.0.0.1 instead of standard input' },
    ],
    notes:
      'Over HTTP a client sends the token of SQUASH_CODEMODE_TOKEN as a bearer; without that variable one is made and printed.',
    load: () => import('./commands/codemode-serve.ts'),
  },
  {
    name: 'codemode types',
    group: 'other',
    summary: 'TypeScript declarations of MCP servers’ tools',
    positionals: [],
    flags: [toolsFlag, { name: 'search', value: 'WORDS', summary: 'only the tools that fit, best first' }],
    load: () => import('./commands/codemode-types.ts'),
  },
];
