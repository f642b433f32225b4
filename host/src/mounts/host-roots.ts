/**
 * From the rules of a root that is the host's file system to its mounts: judged, looked at by `lstat`, and compiled, anew at each
 * start. What somebody has moved or exchanged since the last one has another meaning, and the rules hold for what is there now.
 */
import { readFileSync } from 'node:fs';
import { AppError } from '@squash/contract/errors';
import { type HostRoot, hostRootLimits } from '@squash/contract/host-root';
import { limits } from '@squash/contract/limits';
import { type CompiledPlaces, compilePlaces } from '@squash/policy/paths/compile';
import { sysfsOf } from './device-sysfs.ts';
import { hostFacts } from './host-facts.ts';
import { type HostSurroundings, judgeHostPaths } from './host-paths.ts';

/** As the launcher takes them in one request. */
const placesBytesMax = 65_536;

export interface HostRootsOptions {
  /** `SQUASH_HOST_ROOT` */
  readonly isOffered: boolean;
  /** Ephemeral mode saves snapshots, of which there are none. */
  readonly isEphemeral: boolean;
  readonly hasOverlay: boolean;
  /** Who the daemon is out on the host. */
  readonly starter: HostStarter;
  readonly around: HostSurroundings;
}

export interface HostStarter {
  readonly uid: number;
  readonly gid: number;
  /** The daemon runs under an id of its own, and has not the rights of whoever started it. */
  readonly isOther: boolean;
}

export class LocalHostRoots {
  readonly #options: HostRootsOptions;

  constructor(options: HostRootsOptions) {
    this.#options = options;
  }

  /** Who commands run as, in the host's numbers. @throws host_root_unavailable */
  starter(): { readonly uid: number; readonly gid: number } {
    const { isOffered, isEphemeral, starter } = this.#options;
    if (!isOffered) throw unavailable('SQUASH_HOST_ROOT is not 1');
    if (isEphemeral)
      throw unavailable('SQUASH_EPHEMERAL is 1, and such a sandbox can’t be saved in a bucket');
    if (starter.isOther)
      throw unavailable(
        'root started the daemon, which runs under ids of its own: start one as an ordinary user',
      );
    return { uid: starter.uid, gid: starter.gid };
  }

  /** @throws host_root_unavailable, host_path_refused, invalid_request */
  compile(root: HostRoot): CompiledPlaces {
    const { uid } = this.starter();
    if (root.nesting) checkNesting(root, uid);
    const facts = hostFacts();
    const verdict = judgeHostPaths(root, this.#options.around, facts);
    if (verdict.verdict === 'refuse') {
      const { path, sentence, reason } = verdict;
      throw new AppError('host_path_refused', `Cannot open "${path}" of the host: ${sentence} (${reason})`);
    }
    const { user, sockets, devices } = root;
    const rules = uid === 0 ? verdict.rules : { ...sysfsOf(devices, facts), ...verdict.rules };
    const compiled = compilePlaces(rules, facts, { home: user.home, sockets, devices });
    const { places } = compiled;
    const overlay = places.find(({ kind }) => kind === 'overlay');
    if (overlay !== undefined && !this.#options.hasOverlay)
      throw unavailable(`"${overlay.target}" needs the kernel’s overlayfs, which this host does not give`);
    const bytes = places.reduce(
      (sum, { source, target }) => sum + Buffer.byteLength(source + target) + 64,
      0,
    );
    const placesMax = hostRootLimits.placesMax - limits.mountsMax;
    if (places.length > placesMax || bytes > placesBytesMax)
      throw new AppError(
        'invalid_request',
        `The rules make ${places.length} mounts, ${bytes} bytes of paths: ${placesMax} and ${placesBytesMax} at most`,
      );
    return compiled;
  }
}

function checkNesting({ devices, paths }: HostRoot, uid: number): void {
  if (devices.includes('/dev/fuse') && Object.values(paths).includes('rw'))
    throw unavailable(
      'nesting, /dev/fuse and what is "rw" together would let a box make set-uid files there: leave one of them out',
    );
  if (uid === 0)
    throw unavailable(
      'of root’s boxes none has nesting: what is root’s own in /proc would be written; start it as an ordinary user',
    );
}

function unavailable(why: string): AppError {
  return new AppError('host_root_unavailable', `Cannot give a sandbox the host’s file system: ${why}`);
}

/**
 * In the daemon's user namespace the first id is whoever it is out on the host. @param starterText what `squash-launch enter` says of
 * who started it (`SQUASHD_STARTER`), where it does
 */
export function readStarter(starterText: string | undefined): HostStarter {
  const uid = outside('uid_map');
  const gid = outside('gid_map');
  // Where root starts Squash it takes ids from here on, which are nobody's.
  const isOther = starterText === undefined ? uid >= ownIdsFirst : Number(starterText) !== uid;
  return { uid, gid, isOther };
}

const ownIdsFirst = 0x70000000;

function outside(map: 'uid_map' | 'gid_map'): number {
  for (const line of readFileSync(`/proc/self/${map}`, 'utf8').trim().split('\n')) {
    const [inside, out] = line.trim().split(/\s+/).map(Number);
    if (inside === 0 && out !== undefined) return out;
  }
  throw new AppError('internal', `/proc/self/${map} has no id 0`);
}
