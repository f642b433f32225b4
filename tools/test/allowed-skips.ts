/**
 * Which tests may skip on which machine. A skip that no row allows counts as a failure: a test that silently
 * stopped running looks the same as one that passes.
 *
 * A test says in its skip reason what is missing; the row says on which machines that may be missing.
 */
import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';

export interface Machine {
  readonly isRoot: boolean;
  readonly hasSubordinateIds: boolean;
  readonly hasCgroupV2: boolean;
  readonly hasFuse: boolean;
  readonly isArm: boolean;
  readonly isLongRun: boolean;
  readonly hasContainers: boolean;
}

interface AllowedSkip {
  readonly reason: RegExp;
  readonly where: (machine: Machine) => boolean;
  /** Where the skipped thing is checked instead. */
  readonly instead: string;
}

const allowed: readonly AllowedSkip[] = [
  { reason: /\broot\b/, where: (m) => !m.isRoot, instead: 'the same run as root' },
  {
    reason: /ordinary user/,
    where: (m) => m.isRoot,
    instead: 'the same suite as a throw-away user, which the run as root starts',
  },
  {
    reason: /subordinate|single-id/,
    where: (m) => !m.isRoot && !m.hasSubordinateIds,
    instead: 'the run as a user with subordinate ids',
  },
  {
    reason: /cgroup/,
    where: (m) => !m.hasCgroupV2 || !m.isRoot,
    instead: 'tests/vm, in a guest with cgroup v2',
  },
  { reason: /\/dev\/fuse/, where: (m) => !m.hasFuse, instead: 'a machine with /dev/fuse' },
  {
    reason: /Landlock/,
    where: () => true,
    instead: 'a machine whose kernel has Landlock: Debian 12 and later',
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
    reason: /is not installed on this machine/,
    where: () => true,
    instead:
      'a machine that has the program; the other rows of tests/security/programs.test.ts run everywhere',
  },
  {
    reason: /closed to other users/,
    where: (m) => m.isRoot,
    instead: 'a clone that others may read; the run as a throw-away user has a daemon of that user’s',
  },
  { reason: /--long/, where: (m) => !m.isLongRun, instead: 'squash test --long' },
];

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
    hasContainers: ['/usr/bin/podman', '/usr/bin/docker', '/usr/local/bin/docker'].some((path) =>
      existsSync(path),
    ),
  };
}

function hasRange(file: string): boolean {
  if (!existsSync(file)) return false;
  const { username, uid } = userInfo();
  return readFileSync(file, 'utf8')
    .split('\n')
    .some((line) => line.startsWith(`${username}:`) || line.startsWith(`${uid}:`));
}
