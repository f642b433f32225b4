/** What lies at paths of the host, for the compiler of rules and the judge of a host root. */
import { accessSync, type BigIntStats, constants, lstatSync, readFileSync, readlinkSync } from 'node:fs';
import type { DeviceFact, PathFact, PathFacts } from '@squash/policy/paths/compile';

/**
 * By `lstat` alone, which is what the daemon may do outside of its own files. Of each path once: hundreds of names have the same few
 * directories before them, and looking at each anew was half of a box's start.
 */
export function hostFacts(): PathFacts {
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
