/** `squash snapshots ls`: what `restore` may name, oldest first. */
import type { SnapshotDetails } from '@squash/contract/native-snapshot';
import { labelQuery, listAll } from '../client/pages.ts';
import { snapshotPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatAge, formatBytes, printJson, printLine } from '../output/print.ts';
import { printTable } from '../output/table.ts';
import { labelWords } from '../label-words.ts';

/** A daemon of the first release has other names for two of the fields, and no labels. */
export type AnySnapshot = SnapshotDetails & { readonly created?: string; readonly size?: number };

export function sizeOf({ size_bytes, size = 0 }: AnySnapshot): number {
  return size_bytes ?? size;
}

/** A daemon of an earlier release says nothing of it. */
function memoryOf({ memory_bytes: bytes }: Partial<AnySnapshot>): string {
  return bytes === null || bytes === undefined ? '' : formatBytes(bytes);
}

export async function run({ client, flags, positionals, json }: Call): Promise<number> {
  const path = snapshotPath(positionals[0] ?? '');
  const snapshots = await listAll<AnySnapshot>(client, path, { label: labelQuery(flags) });
  if (json) {
    printJson(snapshots);
    return exitCodes.ok;
  }
  if (flags.isSet('quiet')) {
    for (const each of snapshots) printLine(each.label);
    return exitCodes.ok;
  }
  printTable<AnySnapshot>(
    [
      { title: 'LABEL', text: (each) => each.label },
      { title: 'AGE', text: (each) => formatAge(each.created_at ?? each.created ?? ''), align: 'right' },
      { title: 'SIZE', text: (each) => formatBytes(sizeOf(each)), align: 'right' },
      { title: 'MEMORY', text: memoryOf, align: 'right' },
      { title: 'ON', text: (each) => (each.whole ? '' : (each.base ?? '(removed)')) },
      { title: 'ACTIVE', text: (each) => (each.active ? 'yes' : '') },
      { title: 'LABELS', text: (each) => labelWords(each.labels) },
    ],
    snapshots,
  );
  return exitCodes.ok;
}
