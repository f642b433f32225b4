/** Help texts, laid out from the command table. Loaded only when somebody asks. */
import { globalFlags } from './arguments.ts';
import { commandTable } from './command-table.ts';
import type { CommandSpec, FlagSpec } from './command.ts';

const groups = {
  daemon: 'The daemon',
  sandbox: 'Sandboxes',
  command: 'Commands in a sandbox',
  box: 'Boxes: commands on this machine',
  file: 'Files of a sandbox',
  layer: 'Layers and snapshots',
  volume: 'Volumes and directories of the host',
  network: 'Network and secrets',
  group: 'Groups of agents',
  access: 'Keys, owners and the audit',
  event: 'Usage and events',
  other: 'Other',
} as const satisfies Record<CommandSpec['group'], string>;

export function generalHelp(): string {
  const lines = ['Usage: squash <command> [options]', ''];
  for (const [group, title] of Object.entries(groups)) {
    lines.push(`${title}:`);
    for (const spec of commandTable) {
      if (spec.group === group && spec.hidden === undefined)
        lines.push(`  ${spec.name.padEnd(15)} ${spec.summary}`);
    }
    lines.push('');
  }
  lines.push(
    'Of a clone of the project, as ./squash:',
    '  setup           put in place what is missing: packages, Node, libraries, programs',
    '  test            every check; --only SUITE for one part',
    '  bench           measure, and write docs/performance.md',
    '',
    'Options of every command:',
    ...flagLines(globalFlags),
    '',
    'More on one: squash help <command>',
  );
  return lines.join('\n');
}

/** @param related commands of two words that begin with this one */
export function commandHelp(spec: CommandSpec, related: readonly CommandSpec[] = []): string {
  const lines = [`Usage: squash ${spec.name}${usageWords(spec)}`, '', `${sentence(spec.summary)}`];
  if (spec.flags.length > 0) lines.push('', 'Options:', ...flagLines(spec.flags));
  lines.push('', 'Options of every command:', ...flagLines(globalFlags));
  if (spec.notes !== undefined) lines.push('', spec.notes);
  if (related.length > 0)
    lines.push('', `See also: ${related.map(({ name }) => `squash ${name}`).join(', ')}`);
  return lines.join('\n');
}

/** @param head the word that their names begin with */
export function groupHelp(head: string, commands: readonly CommandSpec[]): string {
  const shown = commands.filter(({ hidden }) => hidden === undefined);
  const width = Math.max(...shown.map(({ name }) => name.length));
  return [
    `Usage: squash ${head} <command> [options]`,
    '',
    ...shown.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`),
    '',
    `More on one: squash help ${head} <command>`,
  ].join('\n');
}

export function usageWords(spec: CommandSpec): string {
  const words = spec.flags.length > 0 ? ['[options]'] : [];
  for (const positional of spec.positionals) {
    const name = `<${positional.name}>${positional.repeats ? '…' : ''}`;
    words.push(positional.optional ? `[${name}]` : name);
  }
  if (spec.rest !== undefined) words.push('[--]', `<${spec.rest.name}> [argument…]`);
  return words.map((word) => ` ${word}`).join('');
}

function flagLines(flags: readonly FlagSpec[]): string[] {
  const heads = flags.map((flag) => {
    const short = flag.short === undefined ? '    ' : `-${flag.short}, `;
    return `  ${short}--${flag.name}${flag.value === undefined ? '' : ` ${flag.value}`}`;
  });
  const width = Math.max(...heads.map((head) => head.length));
  return flags.map((flag, index) => `${(heads[index] ?? '').padEnd(width)}  ${flag.summary}`);
}

function sentence(summary: string): string {
  return `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`;
}
