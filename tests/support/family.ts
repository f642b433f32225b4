/** The group of docs/api.md's commands: its agent greets, and wants to speak in another group's chat, which waits for a person. */
import type { Action } from '@squash/contract/actions';
import type { Group, MessageTaken, Run } from '@squash/contract/groups';
import type { TestDaemon } from './daemon.ts';
import { waitFor } from './wait.ts';

const agent = `echo hello; body='{"id":"a-1","action":"message.send","chat":"friends-chat","text":"hello"}'
  wget -q -O - --post-data "$body" "$SQUASH_CHANNEL/actions"`;

type Daemon = Pick<TestDaemon, 'call' | 'request'>;

export async function makeFamily(daemon: Daemon): Promise<void> {
  await daemon.call('POST', '/v1/groups', {
    name: 'family',
    tier: 'trusted',
    command: ['/bin/sh', '-c', agent],
  });
}

/** Speaks to it in `family-chat`, and resolves with the number of what its agent waits for. */
export async function heldOf(daemon: Daemon): Promise<number> {
  const message = { sender: 'alice', text: 'hello' };
  const { run } = (await daemon.call('POST', '/v1/chats/family-chat/messages', message)) as MessageTaken;
  await waitFor('the run', async () => {
    const { items } = (await daemon.call('GET', '/v1/groups/family/runs')) as {
      readonly items: readonly Run[];
    };
    return items.some((each) => each.run === run && each.state === 'done' && each.sandbox === null);
  });
  const { items } = (await daemon.call('GET', '/v1/group-actions?state=held')) as {
    readonly items: readonly Action[];
  };
  const [held] = items;
  if (held === undefined) throw new Error('nothing waits');
  return held.number;
}

/** All of them, when their runs have ended, and the tier of the page. */
export async function removeGroups(daemon: Daemon): Promise<void> {
  const { items } = (await daemon.call('GET', '/v1/groups')) as { readonly items: readonly Group[] };
  for (const { name } of items)
    await waitFor('the group to rest', async () => {
      const { status } = await daemon.request('DELETE', `/v1/groups/${name}`);
      return status === 204 || status === 404;
    });
  await daemon.request('DELETE', '/v1/tiers/guests');
}
