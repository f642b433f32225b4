/** `squash module inspect`: one module, field by field. */
import type { ModuleDetails } from '@squash/contract/module';
import { modulePath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { printInfo } from './info.ts';

export async function run({ client, positionals, json }: Call): Promise<number> {
  const details = await client.get<ModuleDetails>(modulePath(positionals[0] ?? ''));
  if (json) printJson(details);
  else printInfo(details);
  return exitCodes.ok;
}
