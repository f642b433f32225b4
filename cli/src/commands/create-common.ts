/** The options of a new sandbox that both spellings of the API take: of `create`, `fork` and `run`. */
import { limits } from '@squash/contract/limits';
import type { Flags } from '../arguments.ts';
import { usageFailure } from '../failure.ts';
import { isPolicyFile } from '../filed-policy.ts';
import { readOwnSecrets } from '../own-secrets.ts';
import { readJsonFile } from '../json-file.ts';

/** What both spellings of the API call the same, and `allow_net`, which `/v1` has as a policy. */
export function readCommon(
  flags: Flags,
  /** Of those that mean something else in this command. */
  without: readonly ('secret' | 'policy')[] = [],
): Record<string, unknown> {
  const request: Record<string, unknown> = {};
  for (const name of ['owner', 'upstream', 'backend']) {
    if (flags.isDeclared(name) && flags.isSet(name)) request[name] = flags.text(name);
  }
  if (flags.isSet('cpu')) request['cpu'] = flags.number('cpu', { min: limits.cpuMin, max: limits.cpuMax });
  if (flags.isSet('memory')) {
    request['memory_mb'] = flags.integer('memory', { min: limits.memoryMbMin, max: limits.memoryMbMax });
  }
  if (flags.isSet('allow-net')) {
    request['allow_net'] = flags
      .list('allow-net')
      .flatMap((list) => list.split(','))
      .map((word) => word.trim());
  }
  if (!without.includes('policy') && isPolicyFile(flags.text('policy')))
    throw usageFailure('a policy file of boxes is for squash create, run and fork: give a network policy');
  if (flags.isSet('policy') && !without.includes('policy'))
    request['policy'] = readJsonFile(flags.text('policy') ?? '-', 'policy');
  if (flags.isSet('secret') && !without.includes('secret')) {
    const isOwn = (word: string): boolean => word.includes('=');
    const names = flags.list('secret').filter((word) => !isOwn(word));
    // "none" is no variable anybody uses: lower case, as in allow_net.
    const shared = names.flatMap((list) => list.split(',')).filter((name) => name !== 'none');
    const own = flags.list('secret').filter(isOwn);
    if (names.length > 0) request['secrets'] = shared;
    if (own.length > 0) request['own_secrets'] = readOwnSecrets(own);
  }
  return request;
}
