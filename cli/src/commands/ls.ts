/** `squash ls`: the sandboxes, sorted by id. */
import type { SandboxInfo } from '@squash/contract/sandbox';
import { sandboxesPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatAge, formatBytes, printJson, printLine } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const sandboxes = await call.client.get<readonly SandboxInfo[]>(sandboxesPath);
  if (call.json) {
    printJson(sandboxes);
    return exitCodes.ok;
  }
  if (call.flags.isSet('quiet')) {
    for (const each of sandboxes) printLine(each.id);
    return exitCodes.ok;
  }
  printTable<SandboxInfo>(
    [
      { title: 'ID', text: (each) => each.id },
      {
        title: 'STATE',
        text: (each) => each.state,
        style: (each) => (each.state === 'ready' ? 'green' : 'yellow'),
      },
      { title: 'AGE', text: (each) => formatAge(each.created), align: 'right' },
      { title: 'EXECS', text: (each) => `${each.exec_count}`, align: 'right' },
      { title: 'UPPER', text: (each) => formatBytes(each.upper_bytes), align: 'right' },
      { title: 'OWNER', text: (each) => each.owner },
      { title: 'LAYERS', text: (each) => each.layers.join(',') },
    ],
    sandboxes,
  );
  return exitCodes.ok;
}
