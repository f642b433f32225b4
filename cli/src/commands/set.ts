/** `squash set`: changes a sandbox that runs or rests; prints it as it is now. */
import { limits } from '@squash/contract/limits';
import type { SandboxPatch, SandboxRecord } from '@squash/contract/native-sandbox';
import { sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { durationSeconds } from '../durations.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { labelChangesOf } from '../label-words.ts';
import { printJson } from '../output/print.ts';
import { whileTold } from '../output/progress.ts';
import { readEnvironment } from './exec-options.ts';
import { printInfo } from './info.ts';

export async function run(call: Call): Promise<number> {
  const path = sandboxRecordPath(call.positionals[0] ?? '');
  const patch = await patchOf(call, path);
  if (Object.keys(patch).length === 0) throw usageFailure('nothing to change is named; try: squash help set');
  const record = await whileTold(`changing ${call.positionals[0]}`, call, () =>
    call.client.patch<SandboxRecord>(path, patch),
  );
  if (call.json) printJson(record);
  else printInfo(record);
  return exitCodes.ok;
}

async function patchOf({ flags, client }: Call, path: string): Promise<SandboxPatch> {
  const lifetime = durationSeconds(flags, 'lifetime', { min: 0, max: limits.lifetimeSMax });
  const idle = durationSeconds(flags, 'idle', { min: limits.idleTimeoutSMin, max: limits.lifetimeSMax });
  const onTimeout = flags.text('on-timeout');
  return {
    ...(flags.isSet('name') && { name: flags.text('name') || null }),
    ...(flags.isSet('label') && { labels: labelChangesOf(flags.list('label')) }),
    ...(flags.isSet('env') && { env: changedEnvironment(await client.get<SandboxRecord>(path), flags) }),
    ...(flags.isSet('cpu') && { cpu: flags.number('cpu', { min: limits.cpuMin, max: limits.cpuMax }) }),
    ...(flags.isSet('memory') && {
      memory_mb: flags.integer('memory', { min: limits.memoryMbMin, max: limits.memoryMbMax }),
    }),
    ...(lifetime !== undefined && { lifetime_s: lifetime === 0 ? null : lifetime }),
    ...(idle !== undefined && { idle_timeout_s: idle === 0 ? null : idle }),
    // The API says what else it may be.
    ...(onTimeout !== undefined && { on_timeout: onTimeout as SandboxPatch['on_timeout'] }),
  };
}

/** The API replaces all variables, so those that stay are sent along. */
function changedEnvironment({ env }: SandboxRecord, flags: Call['flags']): Record<string, string> {
  const gone = flags.list('env').filter((word) => /^[^=]*-$/.test(word));
  const kept = Object.entries(env).filter(([name]) => !gone.includes(`${name}-`));
  return { ...Object.fromEntries(kept), ...readEnvironment(flags) };
}
