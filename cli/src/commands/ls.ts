/** `squash ls`: the sandboxes, sorted by id. */
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { isUnknownOperation, nativeSandboxesPath, sandboxesPath } from '../client/client.ts';
import { labelQuery, listAll } from '../client/pages.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { labelWords } from '../label-words.ts';
import { formatAge, formatBytes, printJson, printLine } from '../output/print.ts';
import { printTable } from '../output/table.ts';

type Row = Pick<
  SandboxRecord,
  'id' | 'state' | 'owner' | 'layers' | 'created_at' | 'commands' | 'disk_bytes'
> &
  Partial<Pick<SandboxRecord, 'name' | 'labels' | 'host_paths' | 'backend'>>;

export async function run(call: Call): Promise<number> {
  const rows = await listRows(call);
  if (call.json) {
    printJson(await withSeedFields(call, rows));
    return exitCodes.ok;
  }
  if (call.flags.isSet('quiet')) {
    for (const each of rows) printLine(each.id);
    return exitCodes.ok;
  }
  const hasNames = rows.some(({ name }) => typeof name === 'string');
  const hasLabels = rows.some(({ labels }) => Object.keys(labels ?? {}).length > 0);
  const hasVms = rows.some(({ backend }) => backend === 'vm');
  printTable<Row>(
    [
      { title: 'ID', text: (each) => each.id },
      {
        title: 'STATE',
        text: (each) => each.state,
        style: (each) => (each.state === 'ready' ? 'green' : 'yellow'),
      },
      { title: 'AGE', text: (each) => formatAge(each.created_at), align: 'right' },
      { title: 'EXECS', text: (each) => `${each.commands}`, align: 'right' },
      { title: 'UPPER', text: (each) => formatBytes(each.disk_bytes), align: 'right' },
      { title: 'OWNER', text: (each) => each.owner },
      ...(hasNames ? [{ title: 'NAME', text: (each: Row) => each.name ?? '' }] : []),
      ...(hasLabels ? [{ title: 'LABELS', text: (each: Row) => labelWords(each.labels) }] : []),
      ...(hasVms ? [{ title: 'BACKEND', text: (each: Row) => each.backend ?? '' }] : []),
      { title: 'LAYERS', text: (each) => (each.host_paths ? 'host' : each.layers.join(',')) },
    ],
    rows,
  );
  return exitCodes.ok;
}

async function listRows({ client, flags }: Call): Promise<readonly Row[]> {
  const state = flags.isSet('state') ? flags.list('state').join(',') : undefined;
  const query = { label: labelQuery(flags), state, name: flags.text('name') };
  try {
    const found = await listAll<SandboxRecord>(client, nativeSandboxesPath, query);
    return found.toSorted((one, other) => (one.id < other.id ? -1 : 1));
  } catch (error) {
    const isFiltered = Object.values(query).some((value) => value !== undefined);
    if (isFiltered || !isUnknownOperation(error)) throw error;
    return (await client.get<readonly SandboxInfo[]>(sandboxesPath)).map((each) => ({
      ...each,
      created_at: each.created,
      commands: each.exec_count,
      disk_bytes: each.upper_bytes,
    }));
  }
}

/** With what only the original's list tells, such as the task and the snapshots. */
async function withSeedFields({ client }: Call, rows: readonly Row[]): Promise<readonly object[]> {
  const all = new Map(
    (await client.get<readonly SandboxInfo[]>(sandboxesPath)).map((each) => [each.id, each]),
  );
  return rows.flatMap((row) => {
    const info = all.get(row.id);
    return info === undefined ? [] : [{ ...info, ...row }];
  });
}
