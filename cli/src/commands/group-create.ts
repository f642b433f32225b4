/** `squash group create`: makes a group and prints its name. */
import { groupLimits } from '@squash/contract/group-limits';
import { groupProfiles, profileCommands } from '@squash/contract/group-profiles';
import type { Group } from '@squash/contract/groups';
import { limits } from '@squash/contract/limits';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { groupsPath } from '../group-paths.ts';
import { parseMount } from '../mount-words.ts';
import { printJson, printLine } from '../output/print.ts';
import { readEnvironment } from './exec-options.ts';

export async function run({ positionals: [name], rest, flags, client, json }: Call): Promise<number> {
  const memory = { min: limits.memoryMbMin, max: limits.memoryMbMax };
  const timeout = { min: groupLimits.timeoutS.least, max: groupLimits.timeoutS.most };
  const idle = { min: groupLimits.idleTimeoutS.least, max: groupLimits.idleTimeoutS.most };
  const session = { min: groupLimits.sessionMb.least, max: groupLimits.sessionMb.most };
  const wished = flags.text('profile');
  const profile = groupProfiles.find((name) => name === wished);
  if (wished !== undefined && profile === undefined)
    throw usageFailure(`--profile takes ${groupProfiles.join(' or ')}, not "${wished}"`);
  if (rest.length === 0 && profile === undefined)
    throw usageFailure('<command> is missing; try: squash help group create');
  const made = await client.post<Group>(groupsPath(), {
    name,
    tier: flags.text('tier') ?? 'untrusted',
    command: rest.length === 0 && profile !== undefined ? profileCommands[profile] : rest,
    ...(profile !== undefined && { profile }),
    ...(flags.isSet('layers') && { layers: flags.list('layers').flatMap((list) => list.split(',')) }),
    ...(flags.isSet('image') && { image: flags.text('image') }),
    ...(flags.isSet('env') && { env: readEnvironment(flags) }),
    ...(flags.isSet('reach') && { reach: flags.list('reach') }),
    ...(flags.isSet('secret') && { secrets: flags.list('secret') }),
    ...(flags.isSet('mount') && { mounts: flags.list('mount').map(parseMount) }),
    ...(flags.isSet('memory') && { memory_mb: flags.integer('memory', memory) }),
    ...(flags.isSet('session-mb') && { session_mb: flags.integer('session-mb', session) }),
    ...(flags.isSet('idle-timeout') && { idle_timeout_s: flags.integer('idle-timeout', idle) }),
    ...(flags.isSet('timeout') && { timeout_s: flags.integer('timeout', timeout) }),
  });
  if (json) printJson(made);
  else printLine(made.name);
  return exitCodes.ok;
}
