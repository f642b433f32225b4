/** Sandboxes' things as the launcher is told of them, which knows paths below the data directory alone. */
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import type { LaunchMount, LaunchUpper } from '../../launch/launch-fields.ts';
import type { HostPlace, MountSpec, StartSpec, VolumeSpec } from '../driver.ts';

export function upperPath(id: SandboxId, generation: number): string {
  return `sandboxes/${id}/uppers/${generation}`;
}

export function volumePath({ id }: VolumeSpec): string {
  return `volumes/${id}/files`;
}

/** More than one of each where levels of a directory of the host make places of it. */
export function launchMounts(mounts: readonly MountSpec[], dataDir: string): readonly LaunchMount[] {
  return mounts.flatMap((mount) => {
    const { host } = 'host' in mount ? mount : {};
    if (host?.places === undefined) return [launchMount(mount)];
    return host.places.map((place) => {
      const rest = place.target.slice(host.path.length);
      return { ...launchPlace(place, dataDir), target: `${mount.path}${rest}`, own: `${host.part}${rest}` };
    });
  });
}

export function launchPlace(place: HostPlace, dataDir: string): LaunchMount {
  return place.kind === 'file' ? { ...place, source: relativeTo(dataDir, place.source) } : place;
}

export function launchMount(mount: MountSpec): LaunchMount {
  const { path: target, mode } = mount;
  if ('volume' in mount)
    return { mode, kind: mount.volume.kind, identity: '-', source: volumePath(mount.volume), target };
  const { identity, path: source, hidden } = mount.host;
  return { mode, kind: 'host', identity, source, target, hidden };
}

export function upperOf(
  spec: Pick<StartSpec, 'id' | 'upperKind' | 'upperGeneration' | 'limits'>,
): LaunchUpper {
  return {
    path: upperPath(spec.id, spec.upperGeneration),
    kind: spec.upperKind,
    bytesMax: spec.limits.upperBytesMax,
    inodesMax: spec.limits.upperInodesMax,
  };
}

/** The launcher knows no absolute path. Precondition: `path` lies below `directory`. */
export function relativeTo(directory: string, path: string): string {
  if (!path.startsWith(`${directory}/`)) {
    throw new AppError('internal', `"${path}" does not lie in the data directory`);
  }
  return path.slice(directory.length + 1);
}
