/** From here into a sandbox: what differs as one tar, each file of which takes its place whole. */
import type { Unpacked } from '@squash/contract/file';
import { filesPath } from '../client/client.ts';
import { eachOf } from '../client/each-of.ts';
import { withProgress } from '../output/progress.ts';
import type { LocalTree } from './local-tree.ts';
import type { Plan } from './plan.ts';
import { type RemoteDirectory, removeRemote } from './remote-tree.ts';
import { writeTar } from './tar-writer.ts';
import type { Tree } from './tree.ts';

/** For the progress bar: what a tar takes beside a file's bytes. */
const entryBytes = 1_536;

export async function push(
  plan: Plan,
  { local, from, to }: { readonly local: LocalTree; readonly from: Tree; readonly to: RemoteDirectory },
): Promise<void> {
  const { client, id, path } = to;
  await eachOf(plan.clear, async (at) => await removeRemote(to, at));
  if (plan.send.length > 0) {
    const bytes = plan.bytes + plan.send.length * entryBytes;
    const body = withProgress(writeTar(local, from, plan.send), { label: 'sync', bytes });
    await client.upload<Unpacked>(filesPath(id, ['archive'], { path, parents: 'true' }), body, undefined);
  } else {
    await client.post(filesPath(id, ['directory']), { path, parents: true });
  }
  await eachOf(plan.remove, async (at) => await removeRemote(to, at));
}
