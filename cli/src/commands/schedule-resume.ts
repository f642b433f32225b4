/** `squash schedule resume`: lets a schedule go on. */
import type { Call } from '../command.ts';
import { pauseSchedule } from '../group-paths.ts';

export async function run(call: Call): Promise<number> {
  return await pauseSchedule(call, false);
}
