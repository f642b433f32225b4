/** `squash module ls`: the modules that sandboxes can be made of. */
import type { ModuleAnswer } from '@squash/contract/module';
import { modulesPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine, printNote } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const modules = await call.client.get<readonly ModuleAnswer[]>(modulesPath);
  if (call.json) printJson(modules);
  else if (call.flags.isSet('quiet')) for (const each of modules) printLine(each.name);
  else if (modules.length === 0) {
    printNote(
      'No module yet: "squash quickstart" builds the first ones, "squash module import FILE" takes one in.',
    );
  } else {
    printTable<ModuleAnswer>(
      [
        { title: 'NAME', text: (each) => each.name },
        { title: 'SIZE', text: (each) => formatBytes(each.size), align: 'right' },
        { title: 'LOCATION', text: (each) => each.location },
      ],
      modules,
    );
  }
  return exitCodes.ok;
}
