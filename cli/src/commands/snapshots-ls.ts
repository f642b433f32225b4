/** `squash snapshots ls`: what `restore` may name, oldest first. */
import type { SnapshotDetails } from '@squash/contract/sandbox';
import { snapshotPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const snapshots = await call.client.get<readonly SnapshotDetails[]>(
    snapshotPath(call.positionals[0] ?? ''),
  );
  if (call.json) {
    printJson(snapshots);
    return exitCodes.ok;
  }
  if (call.flags.isSet('quiet')) {
    for (const each of snapshots) printLine(each.label);
    return exitCodes.ok;
  }
  printTable<SnapshotDetails>(
    [
      { title: 'LABEL', text: (each) => each.label },
      { title: 'CREATED', text: (each) => each.created },
      { title: 'SIZE', text: (each) => formatBytes(each.size), align: 'right' },
      { title: 'ON', text: (each) => (each.whole ? '' : (each.base ?? '(removed)')) },
      { title: 'ACTIVE', text: (each) => (each.active ? 'yes' : '') },
    ],
    snapshots,
  );
  return exitCodes.ok;
}
