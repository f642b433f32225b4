/**
 * Whether a sandbox may have a directory of the host: one judge, pure, with a reason for each refusal.
 *
 * A newcomer would get the order wrong. What is not on the operator's list is refused by its name alone, before anybody has looked
 * at it: otherwise the answers would tell a stranger what lies where on the host. Behind that the judge asks for facts (`look`).
 *
 * Links are refused, not followed: with none on the way a path has one meaning, and no part of it is somebody else's to change
 * between the judgement and the mount. The launcher refuses them again when it opens the path, and compares device and inode with
 * those that were judged here.
 *
 * Credentials in a directory refuse it rather than being covered: a cover hides what lies there at the time of the mount, and neither what
 * is made a moment later nor what was renamed. What lies deeper is not looked for; docs/volumes.md says so.
 */
import { type HostDirectoryEntry, isPlainPath } from '@squash/contract/host-directory';
import { closedSockets } from '@squash/contract/path-levels';

export interface HostWish {
  readonly path: string;
  readonly mode: 'ro' | 'rw';
  /** Of the sandbox. */
  readonly owner: string;
}

/** What no sandbox gets, whatever a list says. */
export interface Surroundings {
  /** Paths of this installation: data, run, program. */
  readonly own: readonly string[];
  /** The ids of sandboxes, as the daemon's namespace has them: the first, and how many. */
  readonly ids: { readonly first: number; readonly count: number };
  /** Sandboxes have ranges of their own: then nobody writes where an id that is none of theirs owns the directory. */
  readonly isMapped: boolean;
}

/** What lies at a path, looked at part by part. */
export type Found =
  | { readonly type: 'missing' | 'closed' | 'link' | 'other'; readonly at: string }
  | {
      readonly type: 'directory';
      readonly uid: number;
      readonly gid: number;
      readonly mode: number;
      /** Of `credentialNames` and `closedSockets`, those that lie in it. */
      readonly names: readonly string[];
    };

export type RefusalReason =
  | 'path_malformed'
  | 'not_allowed'
  | 'owner_not_allowed'
  | 'read_only'
  | 'system_path'
  | 'own_path'
  | 'credentials'
  | 'link_in_path'
  | 'not_found'
  | 'not_a_directory'
  | 'container_socket'
  | 'not_readable'
  | 'not_writable';

export type Verdict =
  | { readonly verdict: 'allow'; readonly entry: HostDirectoryEntry }
  | { readonly verdict: 'look' }
  | { readonly verdict: 'refuse'; readonly reason: RefusalReason; readonly sentence: string };

/** At, below or around these nothing is mounted. `/` is around all of them. */
const systemPaths = words('/proc /sys /dev /run /var/run /etc /boot').concat(
  words('/var/lib/docker /var/lib/containerd /var/lib/containers /var/lib/kubelet'),
);

/** Where programs keep keys; in any spelling of large and small letters, which some file systems do not tell apart. */
export const credentialNames: readonly string[] = words(
  '.ssh .aws .gnupg .kube .docker .azure .gcloud .config/gcloud .config/gh .local/share/keyrings .password-store',
).concat(words('.vault-token .netrc .npmrc .pypirc .git-credentials .env'));

export function judgeHostDirectory(
  list: readonly HostDirectoryEntry[],
  around: Surroundings,
  { wish, found }: { readonly wish: HostWish; readonly found?: Found },
): Verdict {
  const { path } = wish;
  if (!isPlainPath(path))
    return refuse('path_malformed', 'a path is absolute, without ".", "..", "//" and a slash at its end');
  const covering = list.filter((entry) => isWithin(path, entry.path));
  if (covering.length === 0)
    return refuse('not_allowed', 'it is not in host-directories.json, nor is one that it lies in');
  const theirs = covering.filter(({ owners }) => owners === undefined || owners.includes(wish.owner));
  if (theirs.length === 0)
    return refuse('owner_not_allowed', 'host-directories.json gives it to other owners');
  // The nearest one's `shows` holds.
  const [entry] = theirs
    .filter(({ mode_max }) => wish.mode === 'ro' || mode_max === 'rw')
    .sort((a, b) => b.path.length - a.path.length);
  if (entry === undefined) return refuse('read_only', 'host-directories.json gives it for reading (ro) only');
  const forbidden = judgePath(path, around);
  if (forbidden !== undefined) return forbidden;
  if (found === undefined) return { verdict: 'look' };
  return judgeFound(found, around, { wish, entry }) ?? { verdict: 'allow', entry };
}

function judgePath(path: string, { own }: Surroundings): Verdict | undefined {
  const system = systemPaths.find((each) => isWithin(path, each) || isWithin(each, path));
  if (system !== undefined) return refuse('system_path', `"${system}" belongs to the system`);
  if (own.some((each) => isWithin(path, each) || isWithin(each, path)))
    return refuse('own_path', 'it is, holds, or lies in a directory of Squash itself');
  const lower = `${path.toLowerCase()}/`;
  const name = credentialNames.find((each) => lower.includes(`/${each}/`));
  if (name !== undefined || /\/\.env\.[^/]*\//.test(lower))
    return refuse('credentials', `programs keep credentials at "${name ?? '.env'}"`);
  return undefined;
}

function judgeFound(
  found: Found,
  around: Surroundings,
  { wish, entry }: { readonly wish: HostWish; readonly entry: HostDirectoryEntry },
): Verdict | undefined {
  if (found.type === 'link') return refuse('link_in_path', `"${found.at}" is a link: name what it leads to`);
  if (found.type === 'missing') return refuse('not_found', `there is no "${found.at}"`);
  if (found.type === 'closed') return refuse('not_readable', `"${found.at}" is closed to Squash`);
  if (found.type !== 'directory') return refuse('not_a_directory', `"${found.at}" is no directory`);
  const socket = found.names.find((name) => closedSockets.includes(name));
  if (socket !== undefined) return refuse('container_socket', `"${socket}" in it gives away the host`);
  const credential = found.names.find((name) => !entry.shows.includes(name));
  if (credential !== undefined) {
    const remedy = 'give a directory below it, or name that in "shows" of host-directories.json';
    return refuse('credentials', `"${credential}" lies in it: ${remedy}`);
  }
  const isTheirs = isOfSandboxes(found, around);
  if (!isTheirs && (found.mode & 0o005) !== 0o005)
    return refuse('not_readable', 'others than its owner may not read it, and sandboxes are others');
  if (wish.mode === 'rw' && !isTheirs && (around.isMapped || (found.mode & 0o002) === 0))
    return refuse(
      'not_writable',
      `it does not belong to the sandboxes: docs/volumes.md says to whom to give it`,
    );
  return undefined;
}

/** As which the kernel shows an id that a namespace does not have; one of the sandboxes' may be meant, but who knows. */
const nobody = 65_534;

/** A sandbox's root may do everything to what its namespace has ids for. */
function isOfSandboxes({ uid, gid }: { uid: number; gid: number }, { ids }: Surroundings): boolean {
  return [uid, gid].every((id) => id !== nobody && id >= ids.first && id < ids.first + ids.count);
}

function words(line: string): readonly string[] {
  return line.split(' ');
}

function isWithin(path: string, directory: string): boolean {
  return directory === '/' || path === directory || path.startsWith(`${directory}/`);
}

function refuse(reason: RefusalReason, sentence: string): Verdict {
  return { verdict: 'refuse', reason, sentence };
}
