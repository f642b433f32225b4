/**
 * Which tests may skip on which machine. A skip that no row allows counts as a failure: a test that silently
 * stopped running looks the same as one that passes.
 *
 * A test says in its skip reason what is missing; the row says on which machines that may be missing.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statfsSync } from 'node:fs';
import { userInfo } from 'node:os';

export interface Machine {
  readonly isRoot: boolean;
  readonly hasSubordinateIds: boolean;
  readonly hasCgroupV2: boolean;
  readonly hasFuse: boolean;
  readonly isArm: boolean;
  readonly isLongRun: boolean;
  readonly hasContainers: boolean;
  /** Sandboxes that ask for no backend are microVMs: `on-vm`. */
  readonly isOnVms: boolean;
}

interface AllowedSkip {
  readonly reason: RegExp;
  readonly where: (machine: Machine) => boolean;
  /** Where the skipped thing is checked instead. */
  readonly instead: string;
}

const lacks = (path: string) => (): boolean => !existsSync(path);

const allowed: readonly AllowedSkip[] = [
  { reason: /\broot\b/, where: (m) => !m.isRoot, instead: 'the same run as root' },
  {
    reason: /ordinary user/,
    where: (m) => m.isRoot,
    instead: 'the same suite as a throw-away user, which the run as root starts',
  },
  {
    reason: /the benchmark has not fetched/,
    where: () => true,
    instead: 'a machine where the benchmark has run, which fetches it: tests fetch no other product',
  },
  {
    reason: /no other file system/,
    where: lacks('/dev/shm'),
    instead: 'the same run on a machine with /dev/shm',
  },
  {
    reason: /subordinate|single-id/,
    where: (m) => !m.isRoot && !m.hasSubordinateIds,
    instead: 'the run as a user with subordinate ids',
  },
  {
    reason: /user namespaces/,
    where: () => spawnSync('unshare', ['--user', '--map-current-user', 'true']).status !== 0,
    instead: 'a machine whose users may make namespaces',
  },
  {
    reason: /cgroup/,
    where: (m) => !m.hasCgroupV2 || !m.isRoot,
    instead: 'tests/vm, in a guest with cgroup v2',
  },
  { reason: /\/dev\/fuse/, where: (m) => !m.hasFuse, instead: 'a machine with /dev/fuse' },
  {
    reason: /Landlock/,
    where: () => landlockAbi() < 2,
    instead: 'tests/vm/host-suites.test.ts; with --long all of it',
  },
  {
    reason: /no freezer of version 1/,
    where: (m) => !m.isRoot || !existsSync('/sys/fs/cgroup/freezer'),
    instead: 'the run as root on a machine with version 1 of control groups',
  },
  { reason: /a shallow clone/, where: () => !hasHistory(), instead: 'a whole clone' },
  {
    reason: /no older Node/,
    where: () => olderNode() === undefined,
    instead: 'a machine whose own Node is older than 24',
  },
  {
    reason: /npm can not install/,
    where: () => true,
    instead: 'a machine that reaches the registry of npm, or has the packages in its cache',
  },
  {
    reason: /systemd-analyze is not installed/,
    where: lacks('/usr/bin/systemd-analyze'),
    instead: 'a machine with systemd',
  },
  {
    reason: /pebble is not installed/,
    where: lacks('/usr/bin/pebble'),
    instead: 'a machine with pebble, which Debian has',
  },
  {
    reason: /^this machine has no \S+$/,
    where: () => true,
    instead: 'a machine that has the program',
  },
  {
    reason: /^whoever runs this has a cache of .+$/,
    where: () => true,
    instead: 'a user of the tests’ own, as the suite "user" has it',
  },
  { reason: /python3 is not installed/, where: lacks('/usr/bin/python3'), instead: 'a machine with Python' },
  { reason: /keytool .* is missing/, where: lacks('/usr/bin/keytool'), instead: 'a machine with Java' },
  {
    reason: /no Chromium/,
    where: lacks('/usr/bin/apt-get'),
    instead: 'a machine with Chromium, or with apt',
  },
  { reason: /needs apt/, where: lacks('/usr/lib/apt/apt-helper'), instead: 'a machine with apt' },
  {
    reason: /\/tmp is not ext4/,
    where: () => statfsSync('/tmp').type !== ext4,
    instead: 'a machine whose /tmp is ext4',
  },
  { reason: /no project quotas/, where: () => true, instead: 'tests/vm/host-suites.test.ts' },
  { reason: /aarch64|x86_64/, where: (m) => m.isArm, instead: 'an x86_64 machine' },
  {
    reason: /podman nor docker/,
    where: (m) => !m.hasContainers,
    instead: 'a machine with podman or docker',
  },
  {
    reason: /no address of/,
    where: () => true,
    instead: 'a machine that reaches that archive; tests/egress/programs.test.ts has an index of its own',
  },
  {
    reason: /closed to other users/,
    where: (m) => m.isRoot,
    instead: 'a clone that others may read; the run as a throw-away user has a daemon of that user’s',
  },
  {
    reason: /^a microVM /,
    where: (m) => m.isOnVms,
    instead: 'the same file on namespaces; docs/backends.md says of each what differs',
  },
  { reason: /--long/, where: (m) => !m.isLongRun, instead: 'squash test --long' },
];

/** As a kernel's headers have it. */
const ext4 = 0xef53;

/** Whether some machine may skip so. */
export function hasRow(reason: string): boolean {
  return allowed.some((row) => row.reason.test(reason));
}

export function isSkipAllowed(reason: string, machine: Machine): boolean {
  return allowed.some((row) => row.reason.test(reason) && row.where(machine));
}

export function thisMachine(isLongRun: boolean): Machine {
  const isRoot = process.getuid?.() === 0;
  return {
    isRoot,
    hasSubordinateIds: isRoot || hasRange('/etc/subuid'),
    hasCgroupV2: existsSync('/sys/fs/cgroup/cgroup.controllers'),
    hasFuse: existsSync('/dev/fuse'),
    isArm: process.arch === 'arm64',
    isLongRun,
    isOnVms: false,
    hasContainers: ['/usr/bin/podman', '/usr/bin/docker', '/usr/local/bin/docker'].some((path) =>
      existsSync(path),
    ),
  };
}

/** The kernel's number, below 1 where it has none. @throws without Perl, which Debian always has */
function landlockAbi(): number {
  const { stdout } = spawnSync('perl', ['-e', 'print syscall(444, 0, 0, 1)'], { encoding: 'utf8' });
  if (!stdout) throw new Error('perl did not ask the kernel for Landlock');
  return Number(stdout);
}

/** A copy without a repository has none. */
function hasHistory(): boolean {
  const words = ['rev-parse', '--is-shallow-repository'];
  const { stdout } = spawnSync('git', words, { cwd: import.meta.dirname, encoding: 'utf8' });
  return stdout?.trim() === 'false';
}

/** A Node of this machine's that is too old for us. */
export function olderNode(): string | undefined {
  return ['/usr/bin/node', '/usr/local/bin/node', '/opt/node/bin/node'].find((path) => {
    const { stdout } = spawnSync(path, ['--version'], { encoding: 'utf8' });
    return Number(/^v(\d+)/.exec(stdout ?? '')?.[1] ?? 24) < 24;
  });
}

function hasRange(file: string): boolean {
  if (!existsSync(file)) return false;
  const { username, uid } = userInfo();
  return readFileSync(file, 'utf8')
    .split('\n')
    .some((line) => line.startsWith(`${username}:`) || line.startsWith(`${uid}:`));
}
