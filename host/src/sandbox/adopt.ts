/** A sandbox made of a file that holds what another one of its id had written: ephemeral mode's next life. */
import { stat } from 'node:fs/promises';
import type { SnapshotLabel } from '@squash/contract/ids';
import type { CreateRequest } from '@squash/contract/sandbox';
import { faultPoint } from '#sandbox/fault.ts';
import { type LayerRef, removedLabel, type SnapshotRow } from '#store/rows.ts';
import { insertStacked } from './fork.ts';
import { removeSandbox } from './remove.ts';
import type { FetchedSnapshot } from './remote-snapshots.ts';
import type { Sandbox } from './sandbox.ts';
import type { World } from './world.ts';

export interface Saved extends FetchedSnapshot {
  readonly label: SnapshotLabel;
}

/** On the modules that it was taken on, or where nobody has said so on those that are asked for. */
export async function adoptFiles(
  { world, request }: { readonly world: World; readonly request: CreateRequest },
  saved: Saved,
  register: (made: Sandbox) => void,
): Promise<Sandbox> {
  const { createdMs = world.clock.wallMs() } = saved;
  const pieces = piecesOf(saved);
  const sizes = await Promise.all(pieces.map(async ({ path }) => (await stat(path)).size));
  const made = await world.layerLock.shared(async () => {
    const layers = saved.layers ?? (await layersAsked(world, request));
    const rows = pieces.map(({ label, labels }, at): SnapshotRow => {
      const base = pieces[at - 1]?.label ?? null;
      return { label, createdMs, size: sizes[at] ?? 0, digest: null, base, layers, labels, memory: null };
    });
    const sandbox = insertStacked({ world, request, image: saved.image }, rows, saved.label);
    // Still under the lock: who collects unused trees asks the registered sandboxes what they use.
    register(sandbox);
    return sandbox;
  });
  faultPoint('fork.inserted');
  // In its own turn: whoever removes it meanwhile waits.
  await made.mailbox.post(async () => {
    try {
      world.files.make(request.id);
      for (const { label, path } of pieces) await world.files.takeSnapshot(request.id, label, path);
    } catch (error) {
      await removeSandbox(made);
      throw error;
    }
  });
  return made;
}

/** The lowest first; all but the last under labels that no client can say. */
function piecesOf({ label, path, labels, below }: Saved): readonly {
  readonly label: SnapshotLabel;
  readonly path: string;
  readonly labels: SnapshotRow['labels'];
}[] {
  const hidden = below.map((piece, at) => ({
    label: removedLabel(label, at + 1),
    path: piece.path,
    labels: {},
  }));
  return [...hidden, { label, path, labels }];
}

function layersAsked(world: World, request: CreateRequest): Promise<LayerRef[]> {
  const modules = [...new Set(request.layers)];
  return Promise.all(
    modules.map(async (module) => ({ module, digest: await world.layers.ensureModule(module) })),
  );
}
