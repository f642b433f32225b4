/** `squash tier rm`: removes tiers. */
import type { Call } from '../command.ts';
import { removeAll, tiersPath } from '../group-paths.ts';

export async function run(call: Call): Promise<number> {
  return await removeAll(call, tiersPath);
}
