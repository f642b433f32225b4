/** Whether the programs of a stack's layers can run on one another: each needs a loader, which some layer must have. */
import { AppError } from '@squash/contract/errors';
import type { LayerRef } from '#store/rows.ts';
import { loaderText } from '../layers/programs.ts';
import { stackOrder } from './stacking.ts';
import type { World } from './world.ts';

/** A stack without any loader may have its base elsewhere, in a snapshot or a mount. @throws module_incompatible */
export async function checkPrograms(
  { layers: store }: Pick<World, 'layers'>,
  layers: readonly LayerRef[],
): Promise<void> {
  const looked = await Promise.all(
    stackOrder(layers).map(async ({ module, digest }) => ({ module, ...(await store.programs(digest)) })),
  );
  const present = new Set(looked.flatMap(({ loaders }) => loaders));
  if (present.size === 0) return;
  for (const { module, loader } of looked) {
    if (loader === null || present.has(loader)) continue;
    const base = looked.findLast(({ loaders }) => loaders.length > 0);
    throw new AppError(
      'module_incompatible',
      `Cannot stack module "${module}" on "${base?.module}": its programs are of ${loaderText(loader)}, and the stack has ${[...present].map(loaderText).join(', ')}`,
    );
  }
}
