/** The row of `command-table.ts` that gives sandboxes to agents: see `mcp/`. */
import type { CommandSpec } from './command.ts';
import { createFlags } from './command-table-sandbox.ts';

/** What a sandbox of a session is made with. */
const made = [
  'layers',
  'cpu',
  'memory',
  'allow-net',
  'policy',
  'secret',
  'owner',
  'upstream',
  'backend',
  'volume',
  'mount',
];

export const mcpCommands: readonly CommandSpec[] = [
  {
    name: 'mcp',
    group: 'other',
    summary: 'an MCP server with tools that work in a sandbox, for Claude, Codex, Gemini and other agents',
    positionals: [],
    flags: [
      {
        name: 'sandbox',
        value: 'ID',
        kind: 'sandbox',
        summary: 'work in this one; without it each session has its own, removed at its end',
      },
      ...createFlags.filter(({ name }) => made.includes(name)),
      { name: 'keep', summary: 'sandboxes stay when their session ends' },
      {
        name: 'any-sandbox',
        summary: 'tools may name every sandbox that you see, not only those of their session',
      },
      { name: 'read-only', summary: 'only tools that change nothing' },
      {
        name: 'output-chars',
        value: 'N',
        summary: 'length of an answer, longer ones are cut (default 30000)',
      },
      {
        name: 'http',
        value: '[ADDRESS:]PORT',
        summary: 'serve over HTTP on an address of this machine instead of standard input',
      },
    ],
    notes:
      'Without --allow-net and --policy a sandbox reaches Debian’s, Python’s and npm’s packages, and a person is asked for everything else (squash approve). --allow-net says what it reaches instead. Over HTTP a client sends the token of SQUASH_MCP_TOKEN as a bearer; without that variable one is made and printed.',
    load: () => import('./commands/mcp.ts'),
  },
];
