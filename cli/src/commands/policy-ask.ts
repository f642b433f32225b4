/** `squash policy ask`: one destination more about which a person is asked, or with `--remove` one less. */
import type { Call } from '../command.ts';
import { changeEntries } from './policy-entries.ts';

export async function run(call: Call): Promise<number> {
  return await changeEntries('ask', call);
}
