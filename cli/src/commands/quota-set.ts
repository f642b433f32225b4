/** `squash quota set`: replaces what an owner may have. */
import type { OwnerInfo, QuotaBody } from '@squash/contract/keys';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { printQuota, quotaPath } from './quota-show.ts';

const whole = { min: 0, max: 1_000_000_000 };

export async function run(call: Call): Promise<number> {
  const [owner = ''] = call.positionals;
  const { flags } = call;
  const body: QuotaBody = {
    sandboxes: flags.integer('sandboxes', whole),
    memory_mb: flags.integer('memory', whole),
    cpu: flags.number('cpu', whole),
    disk_mb: flags.integer('disk', whole),
    execs: flags.integer('execs', whole),
  };
  // Without a word it would take all bounds away: who means that says so.
  if (Object.values(body).every((bound) => bound === undefined) && !flags.isSet('none'))
    throw usageFailure('no bound is named; --none takes all of them away');
  const info = await call.client.put<OwnerInfo>(quotaPath(owner), body);
  if (call.json) printJson(info);
  else printQuota(info.quota, info.use);
  return exitCodes.ok;
}
