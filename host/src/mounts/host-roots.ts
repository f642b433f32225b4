/**
 * From the rules of a root that is the host's file system to its mounts: judged, looked at by `lstat`, and compiled, anew at each
 * start. What somebody has moved or exchanged since the last one has another meaning, and the rules hold for what is there now.
 */
import { accessSync, type BigIntStats, constants, lstatSync, readFileSync, readlinkSync } from 'node:fs';
import { AppError } from '@squash/contract/errors';
import { type HostRoot, hostRootLimits } from '@squash/contract/host-root';
import { limits } from '@squash/contract/limits';
import {
  compilePlaces,
  type CompiledPlaces,
  type DeviceFact,
  type PathFact,
  type PathFacts,
} from '@squash/policy/paths/compile';
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
    const compiled = compilePlaces(verdict.rules, facts, { home: user.home, sockets, devices });
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
 * By `lstat` alone, which is what the daemon may do outside of its own files. Of each path once: hundreds of names have the same few
 * directories before them, and looking at each anew was half of a box's start.
 */
function hostFacts(): PathFacts {
  const seen = new Map<string, PathFact | undefined>();
  return {
    stat(path) {
      if (!seen.has(path)) seen.set(path, factOf(path));
      return seen.get(path);
    },
    links: (path) => readlinkSync(path),
  };
}

function factOf(path: string): PathFact | undefined {
  try {
    const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    if (stats === undefined) return undefined;
    const type = stats.isDirectory()
      ? 'directory'
      : stats.isFile()
        ? 'file'
        : stats.isSymbolicLink()
          ? 'link'
          : stats.isSocket()
            ? 'socket'
            : 'other';
    const identity = `${stats.dev}:${stats.ino}`;
    if (!stats.isCharacterDevice() && !stats.isBlockDevice()) return { type, identity };
    return {
      type: 'device',
      identity: `${identity}:${stats.rdev}`,
      device: deviceFact(path, stats),
    };
  } catch {
    // In a directory that is closed to the user whose daemon this is: he could not see it either.
    return undefined;
  }
}

function deviceFact(path: string, stats: BigIntStats): DeviceFact {
  const major = Number(((stats.rdev >> 8n) & 0xfffn) | ((stats.rdev >> 32n) & 0xfffff000n));
  const minor = Number((stats.rdev & 0xffn) | ((stats.rdev >> 12n) & 0xffffff00n));
  const drivers = numbered(readFileSync('/proc/devices', 'utf8').split('\n\n', 1)[0] ?? '', major);
  return {
    isBlock: stats.isBlockDevice(),
    major,
    minor,
    drivers: major === miscMajor ? numbered(readFileSync('/proc/misc', 'utf8'), minor) : drivers,
    isOpenable: isOpenable(path),
  };
}

const miscMajor = 10;

/** The names behind a number, one a line. */
function numbered(text: string, number: number): readonly string[] {
  return [...text.matchAll(/^\s*(\d+) (\S+)$/gm)].flatMap(([, at, name = '']) =>
    Number(at) === number ? [name] : [],
  );
}

function isOpenable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    // Whatever hinders the daemon hinders the box.
    return false;
  }
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
