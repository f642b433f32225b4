/** `squash stats`: what one sandbox uses, or each of them. */
import { isatty } from 'node:tty';
import type { SandboxInfo } from '@squash/contract/sandbox';
import type { SandboxUsage } from '@squash/contract/usage';
import { apiPath, type Client, sandboxesPath } from '../client/client.ts';
import { eachOf } from '../client/each-of.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import {
  formatBytes,
  formatLimit,
  printJson,
  jsonText,
  printLine,
  printText,
  standardOutput,
} from '../output/print.ts';
import { printTable } from '../output/table.ts';

const watchMs = 2_000;
/** To the top left, and everything behind it away. */
const clearScreen = '\u001b[H\u001b[J';

export interface UsageRow extends SandboxUsage {
  readonly id: string;
}

export async function run(call: Call): Promise<number> {
  const [id] = call.positionals;
  const isWatching = call.flags.isSet('watch');
  for (;;) {
    const rows = await rowsOf(call.client, id);
    if (isWatching && !call.json && isatty(standardOutput)) printText(standardOutput, clearScreen);
    if (call.json && isWatching) printLine(jsonText(rows.map(withoutHistory)));
    else if (call.json) printJson(id === undefined ? rows.map(withoutHistory) : rows[0]);
    else printUsage(rows);
    if (!isWatching) return exitCodes.ok;
    await new Promise((resolve) => setTimeout(resolve, watchMs));
  }
}

async function rowsOf(client: Client, id: string | undefined): Promise<readonly UsageRow[]> {
  if (id !== undefined) return [await rowOf(client, id)];
  return await usageOfAll(client);
}

/** Sorted by id. Shared with `top`. */
export async function usageOfAll(client: Client): Promise<readonly UsageRow[]> {
  const rows: UsageRow[] = [];
  await eachOf(await client.get<readonly SandboxInfo[]>(sandboxesPath), async ({ id }) => {
    try {
      rows.push(await rowOf(client, id));
    } catch (error) {
      // It went since the list was made.
      if (!(error instanceof CliFailure) || error.code !== 'sandbox_not_found') throw error;
    }
  });
  return rows.toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

async function rowOf(client: Client, id: string): Promise<UsageRow> {
  return { id, ...(await client.get<SandboxUsage>(apiPath(['v1', 'sandboxes', id, 'usage']))) };
}

export function withoutHistory({ history: _history, ...row }: UsageRow): Omit<UsageRow, 'history'> {
  return row;
}

/** @param lineEnd behind each line, for a screen that is written over */
export function printUsage(rows: readonly UsageRow[], lineEnd = ''): void {
  const bytes = (value: number | null): string => (value === null ? '-' : formatBytes(value));
  const limit = (value: number | null): string => (value === null ? '-' : formatLimit(value));
  const number = (value: number | null): string => (value === null ? '-' : `${value}`);
  printTable<UsageRow>(
    [
      { title: 'ID', text: (each) => each.id },
      { title: 'CPU %', text: (each) => number(each.cpu_percent), align: 'right' },
      { title: 'CPU S', text: (each) => seconds(each.cpu_us), align: 'right' },
      { title: 'MEMORY', text: (each) => bytes(each.memory_bytes), align: 'right' },
      { title: 'LIMIT', text: (each) => limit(each.memory_limit_bytes), align: 'right' },
      { title: 'PIDS', text: (each) => number(each.pids), align: 'right' },
      { title: 'DISK', text: (each) => bytes(each.disk_bytes), align: 'right' },
      { title: 'LIMIT', text: (each) => limit(each.disk_limit_bytes), align: 'right' },
      { title: 'NET IN', text: (each) => bytes(each.network_in_bytes), align: 'right' },
      { title: 'NET OUT', text: (each) => bytes(each.network_out_bytes), align: 'right' },
      { title: 'CONNECTIONS', text: (each) => number(each.connections_open), align: 'right' },
    ],
    rows,
    lineEnd,
  );
}

function seconds(us: number | null): string {
  return us === null ? '-' : (us / 1_000_000).toFixed(1);
}
