/** Changes of a sandbox that a microVM takes only while it is stopped: its mounts. */
import { isOnVms } from './backend.ts';
import type { TestDaemon } from './daemon.ts';

/** While the sandbox runs; a microVM that runs is stopped before, and started again behind it. */
export async function atRest<T>(daemon: TestDaemon, id: string, change: () => Promise<T>): Promise<T> {
  const isStopped = isOnVms && (await daemon.call('GET', `/v1/sandboxes/${id}`)).state === 'ready';
  if (isStopped) await daemon.call('POST', `/v1/sandboxes/${id}/pause`, { keep: 'files' });
  const changed = await change();
  if (isStopped) await daemon.call('POST', `/v1/sandboxes/${id}/resume`);
  return changed;
}
