/** `squash snapshots`: what `restore` may name, oldest first. */
import type { SandboxInfo } from '@squash/contract/sandbox';
import { sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const info = await call.client.get<SandboxInfo>(sandboxPath(call.positionals[0] ?? ''));
  if (call.json) {
    printJson(info.snapshots);
    return exitCodes.ok;
  }
  printTable<SandboxInfo['snapshots'][number]>(
    [
      { title: 'LABEL', text: (each) => each.label },
      { title: 'CREATED', text: (each) => each.created },
      { title: 'SIZE', text: (each) => formatBytes(each.size), align: 'right' },
      { title: 'ACTIVE', text: (each) => (each.label === info.active_snapshot ? 'yes' : '') },
    ],
    info.snapshots,
  );
  return exitCodes.ok;
}
