/** `squash policy deny`: one destination more that is refused whatever allows it, or with `--remove` one less. */
import type { Call } from '../command.ts';
import { changeEntries } from './policy-entries.ts';

export async function run(call: Call): Promise<number> {
  return await changeEntries('deny', call);
}
