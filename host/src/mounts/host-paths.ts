/**
 * Whether the rules of a root that is the host's file system may hold, and what is closed besides: one judge, pure, with a reason
 * for each refusal.
 *
 * What programs keep keys in is closed whatever the rules say. A rule that opens such a path, or something in it, is refused; where
 * one opens a directory that it lies in, it is hidden. Neither is asked whether it is there: what comes later is hidden, too.
 *
 * What a newcomer would get wrong: a link among the names on the way to such a path. `~/.config` may lead to `~/dotfiles`, and then
 * it is `~/dotfiles/gcloud` that has to be closed. So each path is closed as it is named and where it leads.
 */
import type { HostPaths, HostRoot } from '@squash/contract/host-root';
import {
  closedInHome,
  closedPaths,
  closedSockets,
  noHomes,
  type PathLevel,
  systemPaths,
} from '@squash/contract/path-levels';
import type { PathFacts } from '@squash/policy/paths/compile';
import { isOpened, isWithin, lineage, parentOf, resolveLevel } from '@squash/policy/paths/levels';
import { deviceProblem } from './host-devices.ts';

/** What is never open, whatever the rules say. */
export interface HostSurroundings {
  /** Directories with this installation's state. */
  readonly own: readonly string[];
  /** The home that the daemon was started with: a request's word for it closes more, and opens nothing. */
  readonly home: string | undefined;
  /** The host's root: what it may open says nothing. */
  readonly isRoot: boolean;
}

export type HostPathsVerdict =
  | { readonly verdict: 'allow'; readonly rules: HostPaths }
  | { readonly verdict: 'refuse'; readonly path: string; readonly reason: string; readonly sentence: string };

const linksMax = 40;

type Refusal = Extract<HostPathsVerdict, { readonly verdict: 'refuse' }>;

export function judgeHostPaths(
  {
    paths,
    user,
    sockets = [],
    devices = [],
  }: Pick<HostRoot, 'paths' | 'user'> & Partial<Pick<HostRoot, 'sockets' | 'devices'>>,
  around: HostSurroundings,
  facts: PathFacts,
): HostPathsVerdict {
  const named = [user.home, ...(around.home === undefined ? [] : [around.home])];
  const homes = withCanonical(
    named.filter((home) => home !== '/'),
    facts,
  );
  const closed = withCanonical(
    [
      ...closedPaths,
      ...(homes.includes('/root') ? [] : ['/root']),
      ...around.own,
      ...homes.flatMap((home) => closedInHome.map((name) => `${home}/${name}`)),
    ],
    facts,
  );
  const places = { closed: closed.map((path) => path.toLowerCase()), homes };
  for (const [path, level] of Object.entries(paths)) {
    const refusal =
      linkProblem(path, facts) ?? (isOpened(level) ? openProblem(path, level, places) : undefined);
    if (refusal !== undefined) return refusal;
  }
  for (const path of sockets) {
    const refusal = linkProblem(path, facts) ?? socketProblem(path, places, facts);
    if (refusal !== undefined) return refusal;
  }
  for (const path of devices) {
    const refusal = linkProblem(path, facts) ?? namedDeviceProblem(path, around, facts);
    if (refusal !== undefined) return refusal;
  }
  const rules = withClosed(paths, closed, homes);
  return {
    verdict: 'allow',
    rules: { ...Object.fromEntries([...sockets, ...devices].map((path) => [path, 'ro'])), ...rules },
  };
}

interface Closed {
  /** In small letters: some file systems do not tell them from large ones. */
  readonly closed: readonly string[];
  readonly homes: readonly string[];
}

const noSys = 'of "/sys" a sandbox has only what is about its devices';

function openProblem(path: string, level: PathLevel, { closed, homes }: Closed): Refusal | undefined {
  if (path === '/') return refuse(path, 'whole_root', 'name the directories in it that are to be open');
  const system = systemPaths.find((each) => isWithin(path, each));
  if (system !== undefined)
    return refuse(path, 'system_path', system === '/sys' ? noSys : `a sandbox has a "${system}" of its own`);
  if (level === 'rw' && isWithin(path, '/etc'))
    return refuse(
      path,
      'system_path',
      'the sandbox puts files of its own into "/etc": open it "ro" or "cow"',
    );
  return closedProblem(path, { closed, homes });
}

function closedProblem(path: string, { closed, homes }: Closed): Refusal | undefined {
  const lower = path.toLowerCase();
  const secret = closed.find((each) => isWithin(lower, each));
  if (secret !== undefined)
    return refuse(path, 'always_closed', `"${path.slice(0, secret.length)}" is closed to all sandboxes`);
  if (closedSockets.some((name) => lower.endsWith(`/${name}`)))
    return refuse(path, 'container_socket', 'who reaches it runs programs outside of every sandbox');
  if (isOthersHome(path, homes)) return refuse(path, 'other_home', 'it lies in another user’s home');
  return undefined;
}

/** In `/run`, too: a socket is all that is shown of it. By another name it is the same node. */
function socketProblem(path: string, around: Closed, facts: PathFacts): Refusal | undefined {
  const [, first = ''] = path.split('/');
  if (['proc', 'sys', 'dev'].includes(first))
    return refuse(path, 'system_path', first === 'sys' ? noSys : `a sandbox has a "/${first}" of its own`);
  const lower = path.toLowerCase();
  const fact = facts.stat(path);
  if (
    sessionBus.test(lower) ||
    closedNodes.some((each) => fact !== undefined && facts.stat(each)?.identity === fact.identity)
  )
    return refuse(path, 'container_socket', 'who reaches it runs programs outside of every sandbox');
  const problem = closedProblem(path, around);
  if (problem !== undefined || fact === undefined || fact.type === 'socket') return problem;
  return refuse(path, 'no_socket', 'it is no Unix socket');
}

/** Below `/dev` alone, where root says what lies there. */
function namedDeviceProblem(
  path: string,
  { isRoot }: HostSurroundings,
  facts: PathFacts,
): Refusal | undefined {
  if (!path.startsWith('/dev/')) return refuse(path, 'no_device', 'devices lie in /dev');
  const [, , first = ''] = path.split('/');
  if (ownDevices.has(first)) return refuse(path, 'system_path', 'a sandbox has one of its own');
  const fact = facts.stat(path);
  if (fact === undefined) return refuse(path, 'no_device', 'there is none');
  if (fact.device === undefined) return refuse(path, 'no_device', 'it is no device');
  const problem = deviceProblem(fact.device, { isRoot });
  return problem === undefined ? undefined : refuse(path, 'closed_device', problem);
}

/** As native/launch/devices.c makes them. */
const ownDevices: ReadonlySet<string> = new Set(
  'null zero full random urandom tty fd stdin stdout stderr ptmx pts shm'.split(' '),
);

const sessionBus = /^\/run\/user\/\d+\/bus$/;
const closedNodes: readonly string[] = [
  '/run/docker.sock',
  '/run/podman/podman.sock',
  '/run/containerd/containerd.sock',
  '/run/crio/crio.sock',
  '/run/buildkit/buildkitd.sock',
  '/run/dbus/system_bus_socket',
];

/** With none on the way a path has one meaning. At its end a link is shown as one. */
function linkProblem(path: string, facts: PathFacts): Refusal | undefined {
  const link = lineage(parentOf(path)).find((each) => facts.stat(each)?.type === 'link');
  if (link === undefined) return undefined;
  return refuse(path, 'link_in_path', `"${link}" is a link: name what it leads to`);
}

function isOthersHome(path: string, homes: readonly string[]): boolean {
  return homes.some((home) => {
    const parent = parentOf(home);
    if (noHomes.includes(parent) || path === parent || !isWithin(path, parent)) return false;
    return !homes.some((own) => isWithin(path, own) || isWithin(own, path));
  });
}

/** The rules, and what they would open that is to stay closed. */
function withClosed(paths: HostPaths, closed: readonly string[], homes: readonly string[]): HostPaths {
  const rules: Record<string, PathLevel> = { ...paths };
  for (const home of homes) {
    const parent = parentOf(home);
    const level = resolveLevel(paths, parent);
    if (noHomes.includes(parent) || !isOpened(level)) continue;
    // Other homes can't be listed from here: all are hidden but this one.
    rules[home] ??= resolveLevel(paths, home);
    rules[parent] = 'hidden';
  }
  for (const path of closed) if (isOpened(resolveLevel(rules, path))) rules[path] = 'hidden';
  return rules;
}

function withCanonical(paths: readonly string[], facts: PathFacts): readonly string[] {
  return [...new Set(paths.flatMap((path) => [path, canonical(path, facts)]))];
}

/** Where it leads, as far as that is there. */
function canonical(path: string, facts: PathFacts): string {
  const rest = path.split('/').toReversed();
  let at = '/';
  for (let links = 0; rest.length > 0; ) {
    const part = rest.pop() ?? '';
    if (part === '' || part === '.') continue;
    if (part === '..') {
      at = parentOf(at);
      continue;
    }
    const next = at === '/' ? `/${part}` : `${at}/${part}`;
    if (facts.stat(next)?.type !== 'link' || links === linksMax) {
      at = next;
      continue;
    }
    links += 1;
    const text = facts.links(next);
    if (text.startsWith('/')) at = '/';
    rest.push(...text.split('/').toReversed());
  }
  return at;
}

function refuse(path: string, reason: string, sentence: string): Refusal {
  return { verdict: 'refuse', path, reason, sentence };
}
