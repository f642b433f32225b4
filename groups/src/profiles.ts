/**
 * Groups whose command was written for another host. What is between is an adapter, a program that runs in the sandbox as the agent does: nothing here,
 * and nothing of what it says, is believed more for it.
 */
import type { GroupCreate } from '@squash/contract/groups';
import type { GroupProfile } from '@squash/contract/group-profiles';
import { nanoclawV1, nanoclawV2 } from './nanoclaw.gen.ts';
import type { RunCommand } from './ports.ts';

/** What begins in the sandbox, and the places that it needs there. The sandbox's own Node runs the adapter. */
export function profiled({ command, profile }: GroupCreate): Pick<RunCommand, 'argv' | 'places'> {
  if (profile === null) return { argv: command, places: [] };
  const { text, places } = adapters[profile];
  return { argv: ['node', '--no-warnings', '--input-type=module', '-e', text, '--', ...command], places };
}

const adapters: Readonly<
  Record<GroupProfile, { readonly text: string; readonly places: readonly string[] }>
> = {
  'nanoclaw-v1': { text: nanoclawV1, places: ['/workspace/ipc', '/home/node'] },
  // It puts its databases beside the mounts, which are others' file systems and stay.
  'nanoclaw-v2': { text: nanoclawV2, places: ['/workspace', '/home/node'] },
};
