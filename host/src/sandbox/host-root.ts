/** Sandboxes whose root is the host's file system: what they are started with, who their commands run as, what they can't do. */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import type { HostRoot } from '@squash/contract/host-root';
import type { SandboxImage } from '@squash/contract/image';
import type { Warning } from '@squash/contract/sandbox';
import type { MountId } from '@squash/contract/volume';
import type { SandboxRow, StoredHostRoot } from '#store/rows.ts';
import type { HostPlace, HostRootSpec } from '../drivers/driver.ts';
import type { World } from './world.ts';

export type CompiledRoot = ReturnType<HostRoots['compile']>;

/** Made by `host/src/mounts`. */
export interface HostRoots {
  /** Who commands run as, in the host's numbers. @throws host_root_unavailable */
  starter(): { readonly uid: number; readonly gid: number };
  /** What lies where is looked at now. @throws host_root_unavailable, host_path_refused, invalid_request */
  compile(root: HostRoot): {
    readonly places: readonly HostPlace[];
    /** Rules that do not hold as they are written. */
    readonly dropped: readonly { readonly path: string; readonly why: string }[];
  };
}

/** What a command has that says nothing of it: from an image, or from the user of the host. */
export type CommandDefaults = Pick<
  SandboxImage,
  'name' | 'env' | 'user' | 'uid' | 'gid' | 'home' | 'workdir'
>;

const warningsMax = 20;

/** For a row that is to be. @throws as `HostRoots` does, and host_root_unsupported */
export function hostRootHere(
  { hostRoots }: Pick<World, 'hostRoots'>,
  root: HostRoot | undefined,
  onTimeout: SandboxRow['onTimeout'] | undefined,
): {
  readonly hostRoot: StoredHostRoot | null;
  readonly warnings: readonly Warning[];
  /** For the start that is part of the same request: what lies there was looked at for it. */
  readonly compiled?: CompiledRoot;
} {
  if (root === undefined) return { hostRoot: null, warnings: [] };
  if (onTimeout === 'snapshot') throw unsupported('be saved as a snapshot when its time is over');
  const who = hostRoots.starter();
  const compiled = hostRoots.compile(root);
  const warnings = compiled.dropped
    .slice(0, warningsMax)
    .map(({ path, why }) => ({ code: 'host_path', message: `the rule for "${path}" does not hold: ${why}` }));
  return { hostRoot: { ...who, root }, warnings, compiled };
}

/** Writes the masks into the sandbox's directory. Nothing of it runs. @throws as `HostRoots` does, and disk_full */
export function hostRootSpec(
  world: World,
  row: SandboxRow,
  compiled?: CompiledRoot,
): HostRootSpec | undefined {
  if (row.hostRoot === null) return undefined;
  const { uid, gid, root } = row.hostRoot;
  const { places } = compiled ?? world.hostRoots.compile(root);
  const here = withMasks(world, row, { places, texts: root.masks, prefix: 'mask-' });
  return {
    uid,
    gid,
    places: [...here, ...trustPlaces(world, row)],
    tracesPaths: root.trace_paths,
    allowsNesting: root.nesting,
  };
}

/**
 * The texts become files in the sandbox's directory, which places of the kind `file` then name. @param texts by path of the host, as
 * targets are
 */
export function withMasks(
  { files }: World,
  { id }: SandboxRow,
  {
    places,
    texts,
    prefix,
  }: {
    readonly places: readonly HostPlace[];
    readonly texts: Readonly<Record<string, string>>;
    readonly prefix: string;
  },
): readonly HostPlace[] {
  const directory = join(files.directory(id), '.meta');
  // A new sandbox has none yet.
  mkdirSync(directory, { recursive: true });
  let masks = 0;
  return places.map((place) => {
    if (place.kind !== 'file') return place;
    const source = join(directory, `${prefix}${(masks += 1)}`);
    rmSync(source, { force: true });
    writeFileSync(source, texts[place.target] ?? '');
    // Read in the sandbox by ids that are others here.
    chmodSync(source, 0o444);
    return { ...place, source };
  });
}

/** Of a mount that goes. Its sandbox does not run. */
export function dropMasks(
  { files }: Pick<World, 'files'>,
  { id }: Pick<SandboxRow, 'id'>,
  mount: MountId,
): void {
  const directory = join(files.directory(id), '.meta');
  const names = existsSync(directory) ? readdirSync(directory) : [];
  for (const name of names.filter((each) => each.startsWith(maskPrefix(mount))))
    rmSync(join(directory, name));
}

export function maskPrefix(mount: MountId): string {
  return `${mount}-mask-`;
}

/** In a directory that is the sandbox's own whatever the rules say. */
function trustPlaces({ files, network }: World, { trust }: SandboxRow): readonly HostPlace[] {
  if (trust === null) return [];
  return network.hostTrust.map(({ path, target }) => ({
    kind: 'file',
    mode: 'ro',
    identity: '-',
    source: join(files.layer(trust), path),
    target,
  }));
}

export function commandDefaults({
  image,
  hostRoot,
}: Pick<SandboxRow, 'image' | 'hostRoot'>): CommandDefaults | null {
  if (hostRoot === null) return image;
  const { uid, gid, root } = hostRoot;
  const { name, home, shell } = root.user;
  const env = { HOME: home, USER: name, LOGNAME: name, SHELL: shell };
  return { name: 'host', env, user: name, uid, gid, home, workdir: home };
}

/** @param what it would be asked to do, as an infinitive @throws host_root_unsupported */
export function refuseHostRoot({ hostRoot, id }: Pick<SandboxRow, 'hostRoot' | 'id'>, what: string): void {
  if (hostRoot !== null) throw unsupported(what, id);
}

function unsupported(what: string, id?: string): AppError {
  const which = id === undefined ? 'A sandbox' : `Sandbox "${id}"`;
  return new AppError(
    'host_root_unsupported',
    `${which} whose root is the host’s file system can not ${what}`,
  );
}
