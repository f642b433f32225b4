/** `squash help`: the overview, or one command's options. */
import type { Call } from '../command.ts';
import { findCommand, knownCommands } from '../command-table.ts';
import { exitCodes } from '../failure.ts';
import { commandHelp, generalHelp } from '../help.ts';
import { printLine } from '../output/print.ts';
import { unknownCommand } from '../unknown-words.ts';

export async function run(call: Call): Promise<number> {
  const words = call.positionals;
  const found = findCommand(words);
  if (words.length === 0) printLine(generalHelp());
  else if (found !== undefined) printLine(commandHelp(found.spec));
  else {
    const known = knownCommands();
    const group = words.length === 1 ? known.filter(({ name }) => name.startsWith(`${words[0]} `)) : [];
    if (group.length === 0) throw unknownCommand(words, known);
    printLine(group.map(commandHelp).join('\n\n'));
  }
  return exitCodes.ok;
}
