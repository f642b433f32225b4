/**
 * What a data directory's daemon, launcher and sandboxes leave on the machine, as the kernel lists it.
 *
 * Everything is found by the data directory's path, not by program name: other daemons run beside the tests.
 * Processes inside sandboxes do not name it, so they are found as descendants of those that do.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitFor } from './wait.ts';

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

/** The fields of a process's `stat` from its state on; undefined where there is none of that number. A zombie holds no more than it. */
function statOf(pid: number | string): readonly string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may hold anything, so what follows the last one counts.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields;
  } catch {
    // It ended, perhaps while we looked.
    return undefined;
  }
}

/** Clock ticks from boot to a process's start: with its number, its identity. */
export function startTicksOf(pid: number): number | undefined {
  const ticks = statOf(pid)?.[19];
  return ticks === undefined ? undefined : Number(ticks);
}

/** As the kernel marks its own: they have no words and no environment, and are most of a quiet machine's. */
const kernelThread = 0x20_00_00;

/** Every process of the machine but the kernel's own. */
export function processes(): readonly ProcessEntry[] {
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? entryOf(name) : []));
}

/** Of a process with one thread: asked again and again where all of the machine's would be looked through. */
export function childrenOf(pid: number): readonly ProcessEntry[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return children === '' ? [] : children.split(' ').flatMap(entryOf);
  } catch {
    // It ended, or this kernel has no such list.
    return processes().filter(({ parent }) => parent === pid);
  }
}

/** None where it ended, or is a part of the kernel. */
function entryOf(pid: string): readonly ProcessEntry[] {
  const fields = statOf(pid);
  if (fields === undefined || (Number(fields[6]) & kernelThread) !== 0) return [];
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    return [{ pid: Number(pid), parent: Number(fields[1]), command }];
  } catch {
    // It ended while we looked.
    return [];
  }
}

/** Processes that name the directory in words or environment, and all below them; without this test's own. */
export function processesOf(dataDir: string): readonly ProcessEntry[] {
  const all = processes();
  const found = new Map<number, ProcessEntry>();
  for (const entry of all) {
    if (entry.pid === process.pid) continue;
    if (entry.command.includes(dataDir) || environmentOf(entry.pid).includes(dataDir))
      found.set(entry.pid, entry);
  }
  for (let grown = true; grown; ) {
    grown = false;
    for (const entry of all) {
      if (found.has(entry.pid) || !found.has(entry.parent)) continue;
      found.set(entry.pid, entry);
      grown = true;
    }
  }
  return [...found.values()];
}

/** To those processes of a directory that are meant. */
export function signalAll(
  dataDir: string,
  signal: NodeJS.Signals,
  isMeant: (entry: ProcessEntry) => boolean,
): void {
  for (const entry of processesOf(dataDir).filter(isMeant)) {
    try {
      process.kill(entry.pid, signal);
    } catch {
      // It ended by itself meanwhile.
    }
  }
}

/** Words and environment of every process that may be read. */
export function processWords(): readonly string[] {
  return processes().map(({ pid, command }) => `${command}\n${environmentOf(pid)}`);
}

function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch {
    // Ended, or not ours to read.
    return '';
  }
}

/** The name of the control groups of a data directory: FNV-1a of its path, as squash-launch makes it. */
export function cgroupName(dataDir: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(dataDir)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return `squash-${hash.toString(16).padStart(16, '0')}`;
}

/** The group of a data directory in each hierarchy, as paths: there while its launcher lives. */
export function baseCgroupsOf(dataDir: string): readonly string[] {
  const name = cgroupName(dataDir);
  return cgroupMounts()
    .flatMap((mount) => cgroupParents(mount).map((parent) => join(parent, name)))
    .filter((path) => existsSync(path));
}

/** Control groups of the sandboxes of a data directory, as paths; the group that holds them is not listed. */
export function cgroupsOf(dataDir: string): readonly string[] {
  return baseCgroupsOf(dataDir).flatMap((path) =>
    childGroups(path)
      .filter((name) => name !== 'launcher')
      .map((name) => join(path, name)),
  );
}

/** Those of sandboxes, each hierarchy's: without the egress process's, and without spares, which wait for a sandbox. */
export function sandboxCgroupsOf(dataDir: string): readonly string[] {
  const names = new Map(processes().map(({ pid, command }) => [String(pid), command]));
  return cgroupsOf(dataDir).filter((path) => {
    if (path.endsWith('/egress')) return false;
    const commands = membersOf(path).map((pid) => names.get(pid) ?? '');
    // One that is still being made has its launcher's title; who has become a sandbox has none of ours but the gate's.
    return !commands.some((command) => /^squash-launch (?:spare|resident) /.test(command));
  });
}

function membersOf(path: string): readonly string[] {
  try {
    return readFileSync(join(path, 'cgroup.procs'), 'utf8').split('\n');
  } catch {
    // The group went since it was found.
    return [];
  }
}

/** None where the group itself went since it was found: that is no leak but the end that is waited for. */
function childGroups(path: string): readonly string[] {
  try {
    return readdirSync(path, { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? [entry.name] : [],
    );
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENODEV'))
      return [];
    throw error;
  }
}

function cgroupMounts(): readonly string[] {
  return readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .flatMap((line) => {
      const [, path, type] = line.split(' ');
      return path !== undefined && (type === 'cgroup' || type === 'cgroup2') ? [path] : [];
    });
}

/** The top of a hierarchy and the groups on the way to this process's: squash-launch puts its own into one of them. */
function cgroupParents(mount: string): readonly string[] {
  const parents = readFileSync('/proc/self/cgroup', 'utf8')
    .split('\n')
    .flatMap((line) => {
      const parts = line.split(':').slice(2).join(':').split('/');
      return parts.map((_part, index) => join(mount, ...parts.slice(0, index + 1)));
    });
  return [...new Set([mount, ...parents.filter((path) => existsSync(path))])];
}

/** Mounts and loop devices of the host that lie in the data directory. */
function mountsOf(dataDir: string): readonly string[] {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes(dataDir));
  const loops = existsSync('/sys/block') ? readdirSync('/sys/block') : [];
  const backed = loops.filter((name) => {
    try {
      return readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').includes(dataDir);
    } catch {
      // No loop device, or none in use.
      return false;
    }
  });
  return [...mounts, ...backed];
}

function socketsOf(dataDir: string): readonly string[] {
  return readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .filter((line) => line.includes(dataDir))
    .map((line) => line.slice(line.indexOf(dataDir)));
}

export interface Leaks {
  readonly processes: readonly string[];
  readonly cgroups: readonly string[];
  readonly mounts: readonly string[];
  readonly sockets: readonly string[];
}

/** Everything of this data directory that is on the machine now. */
export function leaksOf(dataDir: string): Leaks {
  return {
    processes: processesOf(dataDir).map((entry) => `${entry.pid} ${entry.command}`),
    cgroups: [...baseCgroupsOf(dataDir), ...cgroupsOf(dataDir)],
    mounts: mountsOf(dataDir),
    sockets: socketsOf(dataDir),
  };
}

/** @throws with the list of what is left of a stopped daemon after a short time to go */
export async function expectNoLeaks(dataDir: string): Promise<void> {
  let last = leaksOf(dataDir);
  try {
    await waitFor('everything to be gone', () => {
      last = leaksOf(dataDir);
      return Object.values(last).every((list: readonly string[]) => list.length === 0);
    });
  } catch (error) {
    throw new Error(`left behind: ${JSON.stringify(last, undefined, 2)}`, { cause: error });
  }
}
