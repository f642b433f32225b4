/** What the driver is told to start. */
import type { ErrorCode } from '@squash/contract/errors';
import type { LayerDigest } from '@squash/contract/ids';
import type { SandboxRow } from '#store/rows.ts';
import type { MountSpec, StartSpec } from '../drivers/driver.ts';
import { hostnameOf } from './environment.ts';
import { type CompiledRoot, hostRootSpec, maskPrefix, withMasks } from './host-root.ts';
import { topmostOnly } from './stacking.ts';
import type { World } from './world.ts';

/** Why a start may fail, where the operator mends it beside a running daemon. */
export const mendable: ReadonlySet<ErrorCode> = new Set([
  'layer_corrupt',
  'module_not_found',
  'disk_full',
  'bucket_unavailable',
  'host_directory_refused',
  'host_path_refused',
  'host_root_unavailable',
  'mount_refused',
]);

/**
 * For this row, on these trees and the row's trust layer on top of them. Writes what the start is to find in the sandbox's directory.
 * @throws volume_not_found, host_directory_refused, host_path_refused, host_root_unavailable where what it has attached is not to be had any more
 */
export function startSpec(
  world: World,
  row: SandboxRow,
  {
    trees,
    compiled,
  }: { readonly trees: readonly LayerDigest[]; readonly compiled?: CompiledRoot | undefined },
): StartSpec {
  const hostRoot = hostRootSpec(world, row, compiled);
  const layers = row.trust === null ? trees : [row.trust, ...trees];
  return {
    id: row.id,
    owner: row.owner,
    instance: row.instance,
    hostname: hostnameOf(row.id),
    lowers: hostRoot === undefined ? topmostOnly(layers) : [],
    hostRoot,
    backend: row.backend,
    upperKind: row.upperKind,
    upperGeneration: row.upperGeneration,
    makesUpper: false,
    mounts: mountSpecs(world, row),
    limits: row.limits,
  };
}

/** With the texts of masks as files. */
function mountSpecs(world: World, row: SandboxRow): readonly MountSpec[] {
  return world.mounts.specs(row).map((spec) => {
    const { host } = 'host' in spec ? spec : {};
    const mount = row.mounts.find(({ path }) => path === spec.path);
    if (host?.places === undefined || mount === undefined) return spec;
    const texts = Object.entries(mount.paths ?? {}).flatMap(([name, level]) =>
      typeof level === 'string' ? [] : [[`${host.path}/${name}`, level.mask] as const],
    );
    const masks = { places: host.places, texts: Object.fromEntries(texts), prefix: maskPrefix(mount.id) };
    return { ...spec, host: { ...host, places: withMasks(world, row, masks) } };
  });
}
