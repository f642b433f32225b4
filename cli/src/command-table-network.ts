/** The rows of `command-table.ts` that concern a sandbox's network: decisions, policies, secrets. */
import type { CommandSpec, PositionalSpec } from './command.ts';

const sandbox: PositionalSpec = { name: 'id', kind: 'sandbox' };

export const networkCommands: readonly CommandSpec[] = [
  {
    name: 'egress',
    group: 'network',
    summary: 'what a sandbox asked for on the network, and how it was answered',
    positionals: [sandbox],
    flags: [
      { name: 'follow', short: 'f', summary: 'go on with each decision as it comes' },
      { name: 'denied', summary: 'only what was refused: denied or blocked' },
      {
        name: 'verdict',
        value: 'VERDICT',
        choices: ['allowed', 'denied', 'blocked', 'refused'],
        summary: 'allowed, denied, blocked, or refused (denied or blocked)',
      },
      {
        name: 'kind',
        value: 'KIND',
        choices: ['dns', 'connection', 'request'],
        summary: 'dns, connection or request',
      },
      { name: 'host', value: 'HOST', summary: 'only this name, or *.NAME for names below it' },
      { name: 'after', value: 'ID', summary: 'only what has a higher number' },
      { name: 'limit', value: 'N', summary: 'at most so many (default 100)' },
    ],
    load: () => import('./commands/egress.ts'),
  },
  {
    name: 'policy show',
    group: 'network',
    summary: 'what a sandbox may reach',
    positionals: [sandbox],
    flags: [],
    load: () => import('./commands/policy-show.ts'),
  },
  {
    name: 'policy set',
    group: 'network',
    summary: 'replace what a sandbox may reach, while it runs',
    positionals: [sandbox, { name: 'destination', kind: 'preset', optional: true, repeats: true }],
    flags: [
      { name: 'deny', value: 'HOST', repeats: true, summary: 'refused even where a destination allows it' },
      { name: 'ask', value: 'HOST', repeats: true, summary: 'a person is asked before it is reached' },
      {
        name: 'dns',
        value: 'HOW',
        choices: ['refuse', 'nxdomain'],
        summary: 'refused names: refuse (default) or nxdomain',
      },
      {
        name: 'file',
        short: 'f',
        value: 'FILE',
        kind: 'file',
        summary: 'the whole policy as JSON; - is standard input',
      },
    ],
    notes:
      'squash policy set dev preset:pypi \'api.example.com:443\'; "none" is nothing, "*" everything public.',
    load: () => import('./commands/policy-set.ts'),
  },
  {
    name: 'policy allow',
    group: 'network',
    summary: 'add destinations to what a sandbox may reach, or take them out',
    positionals: [sandbox, { name: 'destination', kind: 'preset', repeats: true }],
    flags: [{ name: 'remove', summary: 'take them out' }],
    notes: 'squash policy allow dev pypi.org:443; with the last one out nothing is allowed.',
    load: () => import('./commands/policy-allow.ts'),
  },
  {
    name: 'policy deny',
    group: 'network',
    summary: 'add destinations to what is refused whatever allows it, or take them out',
    positionals: [sandbox, { name: 'destination', kind: 'preset', repeats: true }],
    flags: [{ name: 'remove', summary: 'take them out' }],
    load: () => import('./commands/policy-deny.ts'),
  },
  {
    name: 'policy ask',
    group: 'network',
    summary: 'add destinations about which a person is asked, or take them out',
    positionals: [sandbox, { name: 'destination', kind: 'preset', repeats: true }],
    flags: [{ name: 'remove', summary: 'take them out' }],
    notes: 'squash policy ask dev api.example.com; who is asked answers with "squash approve".',
    load: () => import('./commands/policy-ask.ts'),
  },
  {
    name: 'policy test',
    group: 'network',
    summary: 'whether a destination would be reached, and which rule says so',
    positionals: [sandbox, { name: 'destination', kind: 'text' }],
    flags: [
      {
        name: 'method',
        short: 'X',
        value: 'METHOD',
        summary: 'with a URL: the request’s method (default GET)',
      },
      { name: 'policy', value: 'FILE', kind: 'file', summary: 'a policy to try instead of the sandbox’s' },
    ],
    notes:
      'The destination is host:port, address:port or a URL; without a port 443. Exits with 1 where it would be refused.',
    load: () => import('./commands/policy-test.ts'),
  },
  {
    name: 'policy learn',
    group: 'network',
    summary: 'the smallest policy for what a sandbox has asked for',
    positionals: [sandbox],
    flags: [],
    notes: 'Prints JSON that "squash policy set --file" takes. Read it first: it is what the code wanted.',
    load: () => import('./commands/policy-learn.ts'),
  },
  {
    name: 'policy presets',
    group: 'network',
    summary: 'the named lists of hosts that policies can use; with a name: its hosts',
    positionals: [{ name: 'name', kind: 'preset', optional: true }],
    flags: [],
    load: () => import('./commands/policy-presets.ts'),
  },
  {
    name: 'secret ls',
    group: 'network',
    summary: 'list secrets, without their values',
    positionals: [],
    flags: [],
    load: () => import('./commands/secret-ls.ts'),
  },
  {
    name: 'secret set',
    group: 'network',
    summary: 'make or change a secret; its value comes from standard input',
    positionals: [{ name: 'name', kind: 'secret' }],
    flags: [
      {
        name: 'host',
        value: 'HOST',
        repeats: true,
        summary: 'host that gets the value; *.host and :PORT may be',
      },
      {
        name: 'surface',
        value: 'WHERE',
        choices: ['headers', 'query', 'path', 'body'],
        repeats: true,
        summary: 'headers (default), query, path, body: where it is put in',
      },
      { name: 'placeholder', value: 'TEXT', summary: 'what sandboxes see (default: a random one)' },
      { name: 'keep-value', summary: 'change the rest only; no value is read' },
    ],
    notes: 'squash secret set OPENAI_API_KEY --host api.openai.com < key. Prints the placeholder.',
    load: () => import('./commands/secret-set.ts'),
  },
  {
    name: 'secret import',
    group: 'network',
    summary: 'make a secret of the login of Claude Code or Codex, refreshed on the host',
    positionals: [
      { name: 'claude|codex', kind: 'text', choices: ['claude', 'codex'] },
      { name: 'file', kind: 'file', optional: true },
    ],
    flags: [
      {
        name: 'name',
        value: 'NAME',
        summary:
          'the variable in sandboxes (default CLAUDE_CODE_OAUTH_TOKEN, CODEX_ACCESS_TOKEN, OPENAI_API_KEY)',
      },
    ],
    notes:
      'squash secret import claude. Without a file: ~/.claude/.credentials.json or ~/.codex/auth.json. Prints name and placeholder.',
    load: () => import('./commands/secret-import.ts'),
  },
  {
    name: 'secret rm',
    group: 'network',
    summary: 'remove secrets',
    positionals: [{ name: 'name', kind: 'secret', repeats: true }],
    flags: [],
    load: () => import('./commands/secret-rm.ts'),
  },
];
