/** The layers of a sandbox with an interpreter: what `squash module build interpreter` has made. */
import type { Squash } from '@squash/sdk';

/** Undefined where it is not built. */
export async function interpreterLayers(squash: Squash): Promise<readonly string[] | undefined> {
  const names: string[] = [];
  for await (const { name } of squash.modules.list()) names.push(name);
  const named = (stem: string): string | undefined => names.findLast((name) => name.slice(4) === stem);
  const [base, own] = [named('base-debian'), named('interpreter')];
  return base === undefined || own === undefined ? undefined : [base, own];
}
