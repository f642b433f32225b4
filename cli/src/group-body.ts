/** What the flags of `squash group create|set` and `squash chat create|set` say of a group or a chat, as the API has it. */
import { groupLimits } from '@squash/contract/group-limits';
import { type GroupProfile, groupProfiles } from '@squash/contract/group-profiles';
import { limits } from '@squash/contract/limits';
import type { Flags } from './arguments.ts';
import { readEnvironment } from './commands/exec-options.ts';
import { usageFailure } from './failure.ts';
import { parseMount } from './mount-words.ts';

/** @throws usage */
export function profileOf(flags: Flags): GroupProfile | undefined {
  const wished = flags.text('profile');
  const profile = groupProfiles.find((name) => name === wished);
  if (wished === undefined || profile !== undefined) return profile;
  throw usageFailure(`--profile takes ${groupProfiles.join(' or ')}, not "${wished}"`);
}

/** @throws usage */
export function groupBody(flags: Flags): object {
  const memory = { min: limits.memoryMbMin, max: limits.memoryMbMax };
  const timeout = { min: groupLimits.timeoutS.least, max: groupLimits.timeoutS.most };
  const idle = { min: groupLimits.idleTimeoutS.least, max: groupLimits.idleTimeoutS.most };
  const session = { min: groupLimits.sessionMb.least, max: groupLimits.sessionMb.most };
  const profile = profileOf(flags);
  return {
    ...(flags.isSet('tier') && { tier: flags.text('tier') }),
    ...(profile !== undefined && { profile }),
    ...(flags.isSet('layers') && { layers: flags.list('layers').flatMap((list) => list.split(',')) }),
    ...(flags.isSet('image') && { image: flags.text('image') }),
    ...(flags.isSet('env') && { env: readEnvironment(flags) }),
    ...(flags.isSet('reach') && { reach: flags.list('reach') }),
    ...(flags.isSet('secret') && { secrets: flags.list('secret') }),
    ...(flags.isSet('mount') && { mounts: flags.list('mount').map(parseMount) }),
    ...(flags.isSet('memory') && { memory_mb: flags.integer('memory', memory) }),
    ...(flags.isSet('cpu') && { cpu: flags.number('cpu', { min: limits.cpuMin, max: limits.cpuMax }) }),
    ...(flags.isSet('backend') && { backend: flags.text('backend') }),
    ...(flags.isSet('session-mb') && { session_mb: flags.integer('session-mb', session) }),
    ...(flags.isSet('idle-timeout') && { idle_timeout_s: flags.integer('idle-timeout', idle) }),
    ...(flags.isSet('timeout') && { timeout_s: flags.integer('timeout', timeout) }),
  };
}

export function chatBody(flags: Flags): object {
  return {
    ...(flags.isSet('trigger') && { trigger: flags.text('trigger') }),
    ...(flags.isSet('sender') && { senders: flags.list('sender') }),
    ...(flags.isSet('drop') && { others: 'drop' }),
  };
}

/** What `--clear` names, and what the other flags say. @throws usage where both speak of the same, or neither of anything */
export function changeOf(flags: Flags, said: object, cleared: Readonly<Record<string, object>>): object {
  const words = flags.list('clear');
  const known = Object.keys(cleared);
  const unknown = words.find((word) => !known.includes(word));
  if (unknown !== undefined) throw usageFailure(`--clear takes ${known.join(', ')}, not "${unknown}"`);
  const both = words.find((word) => flags.isSet(word));
  if (both !== undefined) throw usageFailure(`--clear ${both} and --${both} exclude each other`);
  const change = Object.assign({}, said, ...words.map((word) => cleared[word])) as object;
  if (Object.keys(change).length === 0) throw usageFailure('nothing is to be changed');
  return change;
}
