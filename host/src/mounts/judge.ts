/**
 * Whether a sandbox may have a directory of the host: one judge, pure, rule by rule, with a reason for each refusal.
 *
 * A newcomer would get the order wrong. What is not on the operator's list is refused by its name alone, before anybody has looked
 * at it: otherwise the answers would tell a stranger what lies where on the host. Behind that the judge asks for facts (`look`).
 *
 * Links are refused, not followed: with none on the way a path has one meaning, and no part of it is somebody else's to change
 * between the judgement and the mount. The launcher refuses them again when it opens the path, and compares device and inode with
 * those that were judged here.
 *
 * Credentials in a directory refuse it rather than being covered, where the operator does not ask for covers (`hides`): one hides what lies
 * there at the time of the mount, and neither what is made a moment later nor what was renamed. What lies deeper is not looked for;
 * docs/volumes.md says so.
 */
import { join, relative } from 'node:path';
import { type HostDirectories, type HostDirectoryEntry, isPlainPath } from '@squash/contract/host-directory';
import type { HostWish, MountStep } from '@squash/contract/mount-check';
import { closedInHome, closedPaths, closedSockets, systemPaths } from '@squash/contract/path-levels';
import { isWithin } from '@squash/policy/paths/levels';
import { isClosedForGood } from './mount-levels.ts';

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
  | 'blocked_name'
  | 'credentials'
  | 'link_in_path'
  | 'not_found'
  | 'not_a_directory'
  | 'container_socket'
  | 'not_readable'
  | 'not_writable'
  /** Said by who makes places of the levels. */
  | 'level_unheld';

export type Verdict =
  /** `hides`: what is seen empty below the path, where it is there. */
  | { readonly verdict: 'allow'; readonly hides: readonly string[] }
  | { readonly verdict: 'look' }
  | { readonly verdict: 'refuse'; readonly reason: RefusalReason; readonly sentence: string };

/** At, below or around these nothing is mounted. `/` is around all of them. */
const closedAround = [...systemPaths, ...words('/var/run /etc /boot'), ...closedPaths];

/** Where programs keep keys; in any spelling of large and small letters, which some file systems do not tell apart. */
export const credentialNames: readonly string[] = closedInHome
  .concat(words('.gpg .config/squash .config/nanoclaw .vault-token .npmrc .pgpass'))
  .concat(words('.env .env.local .env.production .secret credentials credentials.json'))
  .concat(words('private_key id_rsa id_dsa id_ecdsa id_ed25519'));

interface Refusal {
  readonly reason: RefusalReason;
  readonly sentence: string;
}

interface Case {
  readonly list: HostDirectories;
  readonly around: Surroundings;
  readonly wish: HostWish;
  /** Those that cover the path, those of them that the owner may have, and the nearest of these that has the mode. */
  readonly covering: readonly HostDirectoryEntry[];
  readonly theirs: readonly HostDirectoryEntry[];
  readonly entry: HostDirectoryEntry | undefined;
  /** Names below the path that are hidden in it; an empty one: the path itself, or what it lies in. */
  readonly hides: readonly string[];
}

/** A sentence about what it found in order, or a refusal. */
type Rule<Of = Case> = (of: Of) => string | Refusal;

/** In this order; each may rely on those before it. Nobody has looked at the path. */
const byName: Readonly<Record<string, Rule>> = {
  path: ({ wish: { path } }) =>
    isPlainPath(path)
      ? 'it is absolute, without ".", ".." and "//"'
      : refusal('path_malformed', 'a path is absolute, without ".", "..", "//" and a slash at its end'),
  list: ({ covering: [first] }) =>
    first === undefined
      ? refusal('not_allowed', 'it is not in host-directories.json, nor is one that it lies in')
      : `host-directories.json has "${first.path}"${first.description === undefined ? '' : ` (${first.description})`}`,
  owner: ({ theirs, wish: { owner } }) =>
    theirs.length === 0
      ? refusal('owner_not_allowed', 'host-directories.json gives it to other owners')
      : `sandboxes of "${owner}" may have it`,
  mode: ({ entry, wish: { mode } }) =>
    entry === undefined
      ? refusal('read_only', 'host-directories.json gives it for reading (ro) only')
      : `"${entry.path}" is given as ${entry.mode_max}, and ${mode} is asked for`,
  blocked: ({ list: { blocked }, wish: { path }, hides }) => {
    const word = blocked.find((each) => path.toLowerCase().includes(each.toLowerCase()));
    if (hides.includes(''))
      return refusal('blocked_name', 'host-directories.json hides it, or what it lies in');
    if (word === undefined) return 'no part of it is blocked by host-directories.json';
    return refusal('blocked_name', `host-directories.json blocks paths with "${word}"`);
  },
  system: ({ wish: { path } }) => {
    const system = closedAround.find((each) => isWithin(path, each) || isWithin(each, path));
    if (system === undefined) return 'it is no directory of the system';
    return refusal('system_path', `"${system}" belongs to the system`);
  },
  own: ({ around: { own }, wish: { path } }) =>
    own.some((each) => isWithin(path, each) || isWithin(each, path))
      ? refusal('own_path', 'it is, holds, or lies in a directory of Squash itself')
      : 'it is no directory of Squash itself',
  credentials: ({ wish: { path } }) => {
    const lower = `${path.toLowerCase()}/`;
    const name = credentialNames.find((each) => lower.includes(`/${each}/`));
    if (name === undefined && !/\/\.env\.[^/]*\//.test(lower))
      return 'no part of it is a name of credentials';
    return refusal('credentials', `programs keep credentials at "${name ?? '.env'}"`);
  },
};

type Known = Case & { readonly entry: HostDirectoryEntry; readonly found: Found };
type KnownDirectory = Known & { readonly found: Extract<Found, { type: 'directory' }> };

function directoryAt({ found }: Known): string | Refusal {
  if (found.type === 'link') return refusal('link_in_path', `"${found.at}" is a link: name what it leads to`);
  if (found.type === 'missing') return refusal('not_found', `there is no "${found.at}"`);
  if (found.type === 'closed') return refusal('not_readable', `"${found.at}" is closed to Squash`);
  if (found.type === 'other') return refusal('not_a_directory', `"${found.at}" is no directory`);
  return 'it is a directory, and no part of the way is a link';
}

/** What is there, once it was looked at. */
const byLook: Readonly<Record<string, Rule<KnownDirectory>>> = {
  contents: ({ found: { names }, entry: { shows }, hides, wish }) => {
    const socket = names.find((name) => closedSockets.includes(name));
    if (socket !== undefined) return refusal('container_socket', `"${socket}" in it gives away the host`);
    const isHidden = (name: string): boolean => hides.includes(name) || isClosedForGood(wish, name);
    const credential = names.find((name) => !shows.includes(name) && !isHidden(name));
    const hidden = names.filter(isHidden);
    if (credential === undefined && hidden.length > 0)
      return `no credentials are seen in it: ${hidden.join(', ')} is hidden`;
    if (credential === undefined) return 'neither credentials nor a container engine’s socket lie in it';
    const remedy = 'give a directory below it, or name that in "hides" or "shows" of host-directories.json';
    return refusal('credentials', `"${credential}" lies in it: ${remedy}`);
  },
  rights: ({ found, around, wish: { mode } }) => {
    const isTheirs = isOfSandboxes(found, around);
    if (!isTheirs && (found.mode & 0o005) !== 0o005)
      return refusal('not_readable', 'others than its owner may not read it, and sandboxes are others');
    if (mode === 'rw' && !isTheirs && (around.isMapped || (found.mode & 0o002) === 0))
      return refusal(
        'not_writable',
        'it does not belong to the sandboxes: docs/volumes.md says to whom to give it',
      );
    // What is written is a copy first, with its owner: one that is none of theirs the kernel can't give it.
    if (mode === 'cow' && !isTheirs)
      return refusal(
        'not_writable',
        'what is written copy-on-write keeps its owner, and this one is none of the sandboxes’: docs/volumes.md says to whom to give it',
      );
    return mode === 'rw' ? 'sandboxes may write to it' : 'sandboxes may read it';
  },
};

/** Each rule that was asked, the one that refuses last. */
export interface Judgement {
  readonly verdict: Verdict;
  readonly steps: readonly MountStep[];
}

export function judgeHostDirectory(
  list: HostDirectories,
  around: Surroundings,
  { wish, found }: { readonly wish: HostWish; readonly found?: Found },
): Judgement {
  const of = caseOf(list, around, wish);
  const first = ask(byName, of);
  const { entry } = of;
  if (first.refused !== undefined || entry === undefined) return refused(first);
  if (found === undefined) return { verdict: { verdict: 'look' }, steps: first.steps };
  const known = { ...of, entry, found };
  const second = ask({ directory: directoryAt }, known);
  const steps = [...first.steps, ...second.steps];
  if (second.refused !== undefined || found.type !== 'directory') return refused({ ...second, steps });
  const third = ask(byLook, { ...known, found });
  const all = [...steps, ...third.steps];
  if (third.refused !== undefined) return refused({ ...third, steps: all });
  return { verdict: { verdict: 'allow', hides: of.hides }, steps: all };
}

interface Asked {
  readonly steps: readonly MountStep[];
  readonly refused: Refusal | undefined;
}

function ask<Of>(rules: Readonly<Record<string, Rule<Of>>>, of: Of): Asked {
  const steps: MountStep[] = [];
  for (const [rule, judge] of Object.entries(rules)) {
    const said = judge(of);
    if (typeof said !== 'string') {
      steps.push({ rule, allowed: false, reason: said.reason, sentence: said.sentence });
      return { steps, refused: said };
    }
    steps.push({ rule, allowed: true, reason: null, sentence: said });
  }
  return { steps, refused: undefined };
}

function refused({ steps, refused: by }: Asked): Judgement {
  // Rules refuse before anything is missing that those behind them need.
  const { reason, sentence } = by ?? refusal('not_allowed', 'nothing allows it');
  return { verdict: { verdict: 'refuse', reason, sentence }, steps };
}

function caseOf(list: HostDirectories, around: Surroundings, wish: HostWish): Case {
  const covering = list.directories.filter((each) => isWithin(wish.path, each.path)).sort(nearestFirst);
  const isTheirs = ({ owners }: HostDirectoryEntry): boolean =>
    owners === undefined || owners.includes(wish.owner);
  const theirs = covering.filter(isTheirs);
  // The nearest one's `shows` holds; what is hidden all say.
  // What is written copy-on-write the host has nothing of.
  const entry = theirs.find(({ mode_max }) => wish.mode !== 'rw' || mode_max === 'rw');
  const hides = entry === undefined ? [] : hiddenBelow(wish.path, entry, list.directories.filter(isTheirs));
  return { list, around, wish, covering, theirs, entry, hides };
}

/**
 * The entry's `hides` are names in whatever of it is attached, or what is left of them where a directory on the way is; those of the
 * others, around it or below the path, are names in these alone.
 */
function hiddenBelow(
  path: string,
  entry: HostDirectoryEntry,
  list: readonly HostDirectoryEntry[],
): readonly string[] {
  const way = entry.path === '/' ? path : path.slice(entry.path.length);
  const own = entry.hides.flatMap((name) => {
    if (`${way}/`.includes(`/${name}/`)) return [''];
    const parts = name.split('/');
    const isOnWay = (count: number): boolean =>
      count === 0 || way.endsWith(`/${parts.slice(0, count).join('/')}`);
    return parts.flatMap((_, count) => (isOnWay(count) ? [parts.slice(count).join('/')] : []));
  });
  const others = list.flatMap(({ path: top, hides }) =>
    hides.flatMap((name) => {
      const hidden = join(top, name);
      if (isWithin(path, hidden)) return [''];
      return isWithin(hidden, path) ? [relative(path, hidden)] : [];
    }),
  );
  return [...new Set([...own, ...others.filter((name) => !entry.shows.includes(name))])];
}

function nearestFirst(a: HostDirectoryEntry, b: HostDirectoryEntry): number {
  return b.path.length - a.path.length;
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

function refusal(reason: RefusalReason, sentence: string): Refusal {
  return { reason, sentence };
}
