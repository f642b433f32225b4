/** Whether the programs of a stack's layers can run on one another: each needs a C library, which some layer must have. */
import { AppError } from '@squash/contract/errors';
import { isImageLayer } from '@squash/contract/ids';
import type { LayerRef } from '#store/rows.ts';
import { stackOrder } from './stacking.ts';
import type { World } from './world.ts';

/** A stack without any may have its base elsewhere, in a snapshot or a mount. @throws module_incompatible */
export function checkPrograms({ layers: store }: Pick<World, 'layers'>, layers: readonly LayerRef[]): void {
  const looked = stackOrder(layers).map(({ module, digest }) => ({ module, ...store.programs(digest) }));
  const present = new Set(looked.flatMap(({ has }) => has));
  if (present.size === 0) return;
  for (const { module, needs } of looked) {
    // What an image has put together fits, whatever most programs of one of its layers are.
    if (needs === null || present.has(needs) || isImageLayer(module)) continue;
    const base = looked.findLast(({ has }) => has.length > 0);
    throw new AppError(
      'module_incompatible',
      `Cannot stack module "${module}" on "${base?.module}": its programs are of ${needs}, and the stack has ${[...present].join(', ')}`,
    );
  }
}
