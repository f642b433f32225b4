/** `squash help`: the overview, a group's commands, or one command's options. */
import type { Call } from '../command.ts';
import { findCommand, knownCommands } from '../command-table.ts';
import { exitCodes } from '../failure.ts';
import { commandHelp, generalHelp, groupHelp } from '../help.ts';
import { groupOf } from '../other-names.ts';
import { printLine } from '../output/print.ts';
import { unknownCommand } from '../unknown-words.ts';

export async function run(call: Call): Promise<number> {
  const words = call.positionals;
  const found = findCommand(words);
  const known = knownCommands();
  const head = words.length === 1 ? groupOf(words[0] ?? '', known) : undefined;
  const group = known.filter(({ name }) => head !== undefined && name.startsWith(`${head} `));
  if (words.length === 0) printLine(generalHelp());
  else if (found !== undefined && found.isImplied === undefined) printLine(commandHelp(found.spec, group));
  else {
    if (group.length === 0) throw unknownCommand(words, known);
    printLine(groupHelp(head ?? '', group));
  }
  return exitCodes.ok;
}
