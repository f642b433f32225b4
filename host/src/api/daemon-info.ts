/** `daemon.info`: what the daemon was started with and what it found; secrets are masked by whoever made it. */
import type { DaemonInfo } from '@squash/contract/daemon';
import type { daemonInfo } from '@squash/contract/operations/daemon';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';

export function daemonInfoHandler(info: () => DaemonInfo): Handler<typeof daemonInfo> {
  return () => json(info());
}
