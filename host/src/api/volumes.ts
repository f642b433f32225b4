/** `volume.*` and `mount.*`: volumes, and what sandboxes have attached. */
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { LabelFilter } from '@squash/contract/labels';
import type { volumeOperations } from '@squash/contract/operations/volumes';
import type { VolumeInfo } from '@squash/contract/volume';
import type { Engine } from '../engine/engine.ts';
import type { VolumeAsker } from '../engine/volumes.ts';
import { type Caller, ownerFor } from '../http/caller.ts';
import { empty, json } from '../http/reply.ts';
import type { Places } from '../http/places.ts';
import type { Groups } from './groups.ts';
import { checkMount } from './mount-check.ts';
import type { HandlersOf } from '../http/router.ts';

export function volumeHandlers(
  { sandboxes, volumes }: Pick<Engine, 'sandboxes' | 'volumes'>,
  treeReads: Places,
  groups: Pick<Groups, 'tiers'>,
): HandlersOf<typeof volumeOperations> {
  const ownerOf = (id: SandboxId): string => sandboxes.ownerOf(id);
  return {
    'volume.create': async ({ body, caller }) => {
      const create = async () => json(await volumes.create(askerOf(caller), body));
      return body.from === undefined ? await create() : await treeReads.hold(caller.owner, create);
    },
    'volume.list': ({ query, caller }) => {
      const { limit = limits.pageItemsDefault, cursor = '', label } = query;
      const rest = volumes.list(caller.owner).filter((each) => each.id > cursor && hasLabels(each, label));
      const items = rest.slice(0, limit);
      return json({ items, next: rest.length > limit ? (items.at(-1)?.id ?? null) : null });
    },
    'volume.get': ({ params, caller }) => json(volumes.get(askerOf(caller), params.volume)),
    'volume.remove': async ({ params, caller }) => {
      await volumes.remove(askerOf(caller), params.volume);
      return empty;
    },
    'volume.snapshot': ({ params, body, caller }) =>
      treeReads.hold(caller.owner, async () =>
        json(await volumes.snapshot(askerOf(caller), params.volume, body)),
      ),
    'mount.attach': async ({ params, body, caller }) =>
      json(await volumes.attach(askerOf(caller, ownerOf(params.id)), params.id, body)),
    'mount.check': ({ body }) => json(checkMount(body, { volumes, tiers: () => groups.tiers() })),
    'mount.list': ({ params }) => json({ items: volumes.mounts(params.id), next: null }),
    'mount.detach': async ({ params }) => {
      await volumes.detach(params.id, params.mount);
      return empty;
    },
  };
}

/** @param named whose sandbox it is about */
export function askerOf(caller: Caller, named?: string): VolumeAsker {
  return { sees: caller.owner, owner: ownerFor(caller, named) };
}

function hasLabels({ labels }: VolumeInfo, wanted: LabelFilter = []): boolean {
  return wanted.every(({ key, value }) =>
    value === undefined ? Object.hasOwn(labels, key) : labels[key] === value,
  );
}
