/**
 * Sandboxes of the original, as it has left them in `sandboxes/<id>/`: its own small files below `.meta/`, and snapshots.
 *
 * Each gets a row, so that the start finds it like one of ours: on its modules and its active snapshot, with an empty
 * upper. The original's upper stays where it is: it belongs to other ids, and only who has it packed knows that nobody
 * writes there any more. One that can't be taken over is named in the log with the reason and left as it is.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { type SandboxId, sandboxIdSchema, snapshotLabelSchema } from '@squash/contract/ids';
import { askedByDefault, createBodySchema, ownerByDefault, type Warning } from '@squash/contract/sandbox';
import { errorText } from '@squash/base/bug';
import type { LayerRef, SandboxRow } from '#store/rows.ts';
import { isOriginals } from '#store/sandbox-file.ts';
import { draftRow } from './draft.ts';
import { stackOrder } from './stacking.ts';
import type { World } from './world.ts';

/** The ids of those that were named: nobody has to name them again. */
export async function takeOverOriginals(
  world: World,
  known: ReadonlySet<SandboxId>,
): Promise<ReadonlySet<string>> {
  const named = new Set<string>();
  for (const name of await world.files.directories()) {
    const id = sandboxIdSchema.safeParse(name);
    if (id.success && known.has(id.data)) continue;
    if (!isOriginals(world.files.directory(name as SandboxId))) continue;
    try {
      const layers = await readMeta(world, name, 'layers');
      if (layers === undefined) throw refused('its .meta/layers can not be read');
      const row = await rowOf(world, { name, layers });
      await world.driver.createUpper(row);
      world.store.transaction(() => world.store.sandboxes.insert(row));
      world.log.info('recover.original', { sandbox: name, warnings: row.warnings.length });
    } catch (error) {
      named.add(name);
      world.log.warn('recover.original', {
        directory: `sandboxes/${name}`,
        reason: errorText(error),
        remedy:
          'mend that and start again; or create another sandbox, and "squash snapshots put" its snapshots',
      });
    }
  }
  return named;
}

async function rowOf(
  world: World,
  found: { readonly name: string; readonly layers: string },
): Promise<SandboxRow> {
  const { name } = found;
  const meta = (file: string): Promise<string | undefined> => readMeta(world, name, file);
  const body = createBodySchema.safeParse({
    id: name,
    owner: await meta('owner'),
    task: await meta('task'),
    // Versions of the original wrote commas, lines, or both.
    layers: found.layers.split(/[,\n]/),
    cpu: await meta('cpu'),
    memory_mb: await meta('memory_mb'),
    max_lifetime_s: await meta('max_lifetime_s'),
    allow_net: parsed(await meta('allow_net')),
  });
  if (!body.success) throw refused(body.error.issues[0]?.message ?? 'its settings are malformed');
  const { id, owner, task, layers, cpu, memory_mb, max_lifetime_s, allow_net } = body.data;
  const draft = draftRow(world, {
    id,
    owner: owner ?? ownerByDefault,
    task,
    layers,
    // The operator's ceilings are for what is asked for from now on.
    cpu: cpu ?? askedByDefault.cpu,
    memoryMb: memory_mb ?? askedByDefault.memoryMb,
    native: undefined,
    maxLifetimeS: max_lifetime_s ?? askedByDefault.maxLifetimeS,
    allowNet: allow_net ?? undefined,
    policy: undefined,
    secrets: 'all',
    ownSecrets: {},
    upstream: undefined,
    warnings: await upperWarnings(world, id),
  });
  const refs = await world.layerLock.shared(() =>
    Promise.all(
      layers.map(
        async (module): Promise<LayerRef> => ({ module, digest: await world.layers.ensureModule(module) }),
      ),
    ),
  );
  stackOrder(refs);
  const created = Date.parse((await meta('created')) ?? '');
  return {
    ...draft,
    hostLabel: world.store.sandboxes.freeHostLabel(id),
    layers: refs,
    trust: null,
    // A lifetime counts from now: what was over while nobody looked would be gone before anybody could.
    createdMs: Number.isNaN(created) || draft.maxLifetimeS > 0 ? draft.createdMs : created,
    // Its upper is older than its row.
    upperMadeMs: 0,
    activeSnapshot: await activeSnapshot(world, id),
    phase: 'ready',
  };
}

async function activeSnapshot(world: World, id: SandboxId): Promise<SandboxRow['activeSnapshot']> {
  const text = await readMeta(world, id, 'active_snapshot');
  if (text === undefined || text === '' || text === 'null') return null;
  const label = snapshotLabelSchema.safeParse(text);
  if (label.success && world.files.exists(world.files.snapshot(id, label.data))) return label.data;
  throw refused(`its active snapshot "${text.slice(0, 200)}" is missing`);
}

/** What the original itself writes into each upper. */
const ownEntries = new Set(['resolv.conf', 'profile.d', 'ssl']);

async function upperWarnings(world: World, id: SandboxId): Promise<readonly Warning[]> {
  const data = join(world.files.directory(id), 'upper', 'data');
  try {
    const names = await readdir(data);
    const inEtc = names.includes('etc') ? await readdir(join(data, 'etc')) : [];
    if (names.every((name) => name === 'etc') && inEtc.every((name) => ownEntries.has(name))) return [];
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    // One that we may not look into holds something, as far as we know.
  }
  return [
    {
      code: 'original_upper',
      message: `what was written since its last snapshot lies in sandboxes/${id}/upper/data and is not part of it: "mksquashfs" that directory, "squash snapshots put" the file, and restore it`,
    },
  ];
}

async function readMeta(world: World, name: string, file: string): Promise<string | undefined> {
  try {
    return (await readFile(join(world.files.directory(name as SandboxId), '.meta', file), 'utf8')).trim();
  } catch {
    // Not every version wrote every file.
    return undefined;
  }
}

function parsed(json: string | undefined): unknown {
  if (json === undefined || json === '') return undefined;
  try {
    return JSON.parse(json);
  } catch {
    throw refused('its allow_net is malformed');
  }
}

function refused(why: string): AppError {
  return new AppError('invalid_request', why);
}
