/**
 * Groups whose command was written for another host. What is between is an adapter, a program that runs in the sandbox as the agent does: nothing here,
 * and nothing of what it says, is believed more for it.
 */
import { AppError } from '@squash/contract/errors';
import { isNested } from '@squash/contract/group-mounts';
import type { GroupCreate } from '@squash/contract/groups';
import type { GroupProfile } from '@squash/contract/group-profiles';
import { nanoclawV1, nanoclawV2 } from './nanoclaw.gen.ts';
import type { RunCommand } from './ports.ts';

/** What begins in the sandbox, and the places that it needs there. The sandbox's own Node runs the adapter. */
export function profiled({ command, profile, mounts }: GroupCreate): Pick<RunCommand, 'argv' | 'places'> {
  if (profile === null) return { argv: command, places: [] };
  checkMounts({ profile, mounts });
  const { text, places } = adapters[profile];
  return { argv: ['node', '--no-warnings', '--input-type=module', '-e', text, '--', ...command], places };
}

/** An adapter begins by removing what is at its places: of a directory of the host that would be the operator's. @throws invalid_request */
export function checkMounts({ profile, mounts }: Pick<GroupCreate, 'profile' | 'mounts'>): void {
  if (profile === null) return;
  for (const { path } of mounts) {
    const own = adapters[profile].own.find((place) => isNested(path, place));
    if (own === undefined) continue;
    const why = `not ${own}, nor in or around it, which is the profile's (${profile})`;
    throw new AppError('invalid_request', `mounts: "${path}": ${why}`);
  }
}

const adapters: Readonly<
  Record<
    GroupProfile,
    {
      readonly text: string;
      readonly places: readonly string[];
      /** Of these what is there is removed, or written over. */
      readonly own: readonly string[];
    }
  >
> = {
  'nanoclaw-v1': {
    text: nanoclawV1,
    places: ['/workspace/ipc', '/home/node'],
    own: ['/workspace/ipc', '/home/node/.claude'],
  },
  // It puts its databases beside the mounts, which are others' file systems and stay.
  'nanoclaw-v2': {
    text: nanoclawV2,
    places: ['/workspace', '/home/node'],
    own: [
      '/workspace/agent',
      '/workspace/inbound.db',
      '/workspace/outbound.db',
      '/workspace/.heartbeat',
      '/home/node/.claude',
    ],
  },
};
