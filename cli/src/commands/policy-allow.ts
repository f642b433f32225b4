/** `squash policy allow`: one destination more that a sandbox may reach, or with `--remove` one less. */
import type { Call } from '../command.ts';
import { changeEntries } from './policy-entries.ts';

export async function run(call: Call): Promise<number> {
  return await changeEntries('allow', call);
}
