/** The layers of a sandbox with an interpreter: what `squash module build interpreter` has made. */
import type { ModuleAnswer } from '@squash/contract/module';
import { type Client, modulesPath } from './client/client.ts';

/** Undefined where it is not built. */
export async function interpreterLayers(client: Client): Promise<readonly string[] | undefined> {
  const names = (await client.get<readonly ModuleAnswer[]>(modulesPath)).map(({ name }) => name);
  const named = (stem: string): string | undefined => names.findLast((name) => name.slice(4) === stem);
  const [base, own] = [named('base-debian'), named('interpreter')];
  return base === undefined || own === undefined ? undefined : [base, own];
}
