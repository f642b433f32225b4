/** Sends a squashfs file to the daemon: shared by what builds modules; the note on a name also by `module import`. */
import { createReadStream, statSync } from 'node:fs';
import type { ModuleAnswer } from '@squash/contract/module';
import { apiPath, type Client } from '../client/client.ts';
import { printNote, visible } from '../output/print.ts';
import { withProgress } from '../output/progress.ts';

/** A module of any name can be kept, but only three digits say where in a stack it lies. */
export function noteUnstackable(name: string): void {
  if (/^\d{3}-/.test(name)) return;
  printNote(
    `squash: warning: no sandbox can be made of "${visible(name)}": its name does not begin with three digits and "-"`,
  );
}

export async function uploadModule(
  client: Client,
  path: string,
  module: { readonly name: string; readonly replace: boolean },
): Promise<ModuleAnswer> {
  const bytes = statSync(path).size;
  const source = createReadStream(path, { highWaterMark: 262_144 });
  const query = module.replace ? { replace: 'true' } : {};
  const answer = await client.upload<ModuleAnswer>(
    apiPath(['v1', 'modules', module.name], query),
    withProgress(source, { label: module.name, bytes }),
    bytes,
  );
  noteUnstackable(module.name);
  return answer;
}
