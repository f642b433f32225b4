/** `squash help`: the overview, or one command's options. */
import type { Call } from '../command.ts';
import { commandTable, findCommand } from '../command-table.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { commandHelp, generalHelp } from '../help.ts';
import { printLine } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const words = call.positionals;
  const found = findCommand(words);
  if (words.length === 0) printLine(generalHelp());
  else if (found !== undefined) printLine(commandHelp(found.spec));
  else {
    const group = commandTable.filter((spec) => spec.name.startsWith(`${words[0]} `));
    if (group.length === 0) throw usageFailure(`there is no command "${words.join(' ')}"`);
    printLine(group.map(commandHelp).join('\n\n'));
  }
  return exitCodes.ok;
}
