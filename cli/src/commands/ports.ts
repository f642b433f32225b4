/** `squash ports`: what listens in a sandbox. Names of processes are the sandbox's own words. */
import type { PortInfo, PortList } from '@squash/contract/ports';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const list = await call.client.get<PortList>(
    apiPath(['v1', 'sandboxes', call.positionals[0] ?? '', 'ports']),
  );
  if (call.json) {
    printJson(list);
    return exitCodes.ok;
  }
  printTable<PortInfo>(
    [
      { title: 'PORT', text: ({ port }) => `${port}`, align: 'right' },
      { title: 'ADDRESS', text: ({ addresses }) => addresses.join(' ') },
      {
        title: 'PROCESS',
        text: ({ process }) => (process === null ? '-' : `${process.name} (${process.pid})`),
      },
      { title: 'ACCESS', text: ({ access }) => access },
      { title: 'URL', text: ({ url }) => url ?? '-' },
    ],
    list.items,
  );
  return exitCodes.ok;
}

export function portPath(id: string, port: number, more: readonly string[] = []): string {
  return apiPath(['v1', 'sandboxes', id, 'ports', `${port}`, ...more]);
}

/** @param isLocal of this machine: 0 is any that is free */
export function parsePort(text: string, isLocal = false): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port >= (isLocal ? 0 : 1) && port <= 65_535) return port;
  throw usageFailure(`"${text}" is no port: write a number from 1 to 65535`);
}
