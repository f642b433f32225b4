/**
 * Ends a data directory's resident processes: the launcher with every sandbox, and the egress process. For who holds
 * the directory's lock: a daemon that works there would lose its sandboxes.
 */
import type { LaunchClient } from '../launch/launch-client.ts';
import { EgressClient } from './egress-client.ts';
import { stopEgress } from './supervisor.ts';

/** The egress process first: it holds a channel to the launcher, and nobody needs it then. */
export async function endLauncher(
  launcher: LaunchClient,
  runDir: string,
  answerMsMax?: number,
): Promise<void> {
  using egress = new EgressClient(runDir);
  await stopEgress(egress, answerMsMax);
  await launcher.shutdown();
}
