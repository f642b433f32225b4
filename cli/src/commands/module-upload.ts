/** Sends a squashfs file to the daemon; shared by what builds modules. */
import { createReadStream, statSync } from 'node:fs';
import type { ModuleAnswer } from '@squash/contract/module';
import { apiPath, type Client } from '../client/client.ts';
import { withProgress } from '../output/progress.ts';

export function uploadModule(
  client: Client,
  path: string,
  module: { readonly name: string; readonly replace: boolean },
): Promise<ModuleAnswer> {
  const bytes = statSync(path).size;
  const source = createReadStream(path, { highWaterMark: 262_144 });
  const query = module.replace ? { replace: 'true' } : {};
  return client.upload<ModuleAnswer>(
    apiPath(['v1', 'modules', module.name], query),
    withProgress(source, { label: module.name, bytes }),
    bytes,
  );
}
