/** `squash quota show`: what an owner may have, and has. */
import type { OwnerInfo, Quota, QuotaUse } from '@squash/contract/keys';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const [owner = ''] = call.positionals;
  const info = await call.client.get<OwnerInfo>(quotaPath(owner));
  if (call.json) printJson(info);
  else printQuota(info.quota, info.use);
  return exitCodes.ok;
}

export function quotaPath(owner: string): string {
  return apiPath(['v1', 'owners', owner, 'quota']);
}

const titles: Readonly<Record<keyof Quota, string>> = {
  sandboxes: 'sandboxes',
  memory_mb: 'memory (MiB)',
  cpu: 'processors',
  disk_mb: 'disk (MiB)',
  execs: 'running commands',
};

export function printQuota(quota: Quota, use: QuotaUse): void {
  printTable<keyof Quota>(
    [
      { title: 'WHAT', text: (part) => titles[part] },
      { title: 'USED', text: (part) => `${Math.round(use[part] * 100) / 100}`, align: 'right' },
      { title: 'QUOTA', text: (part) => `${quota[part] ?? '-'}`, align: 'right' },
    ],
    Object.keys(titles) as (keyof Quota)[],
  );
}
