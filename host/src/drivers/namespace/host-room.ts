/**
 * What this host has for sandboxes, and how much of it is to be had now: two system calls and some files for each control
 * group that this process is in, a fifth of a millisecond together.
 *
 * A newcomer would ask `os.freemem()`. It knows neither what the kernel could give back nor the limit of the control
 * group that Squash runs in (a container's, a unit's `MemoryMax`), which holds for all sandboxes together.
 */
import { closeSync, existsSync, openSync, readFileSync, readSync, statfsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { lowWater } from '@squash/contract/guest';
import type { HostRoom, Stock } from '../driver.ts';

const mib = 1_048_576;
/** Its first lines, among which are both that are read. */
const meminfoBytes = 256;
const totalLine = /^MemTotal: +(\d+) kB/m;
/** Of a hierarchy of cgroup v1 the group's own comes first, which leaves out those below it. */
const idleLines = [/^total_inactive_file (\d+)/m, /^inactive_file (\d+)/m];
const availableLine = /^MemAvailable: +(\d+) kB/m;

export class HostRoomMeter implements Disposable {
  readonly #dataDir: string;
  /** Kept open: opening it takes as long as reading it. */
  readonly #meminfo = openSync('/proc/meminfo', 'r');
  readonly #buffer = Buffer.alloc(meminfoBytes);
  readonly #groups: readonly Group[];
  /** Node looks at the control group's share, too, in a dozen files. */
  readonly #cpus = availableParallelism();
  #isClosed = false;

  /** @param groups where the kernel tells of control groups */
  constructor(dataDir: string, groups: GroupPlaces = { own: '/proc/self/cgroup', tree: '/sys/fs/cgroup' }) {
    this.#dataDir = dataDir;
    this.#groups = groupsOf(groups);
  }

  read(): HostRoom {
    const host = this.#hostMemory();
    const stocks = [host, ...this.#groups.flatMap((group) => groupMemory(group, host))];
    return {
      memory: {
        totalBytes: Math.min(...stocks.map((stock) => stock.totalBytes)),
        availableBytes: Math.max(0, Math.min(...stocks.map((stock) => stock.availableBytes))),
      },
      cpus: this.#cpus,
      disk: this.#disk(),
    };
  }

  [Symbol.dispose](): void {
    if (!this.#isClosed) closeSync(this.#meminfo);
    this.#isClosed = true;
  }

  #hostMemory(): Stock {
    const length = readSync(this.#meminfo, this.#buffer, 0, meminfoBytes, 0);
    const text = this.#buffer.toString('latin1', 0, length);
    const bytes = (pattern: RegExp): number => Number(pattern.exec(text)?.[1]) * 1_024;
    return { totalBytes: bytes(totalLine), availableBytes: bytes(availableLine) };
  }

  #disk(): HostRoom['disk'] {
    try {
      return diskRoom(this.#dataDir);
    } catch {
      // Its other users say what is wrong with it: nothing is refused for want of room that nobody can tell.
      return { totalBytes: 0, availableBytes: 0, markBytes: 0 };
    }
  }
}

/** @throws where the file system is gone */
export function diskRoom(dataDir: string): HostRoom['disk'] {
  const { blocks, bavail, bsize } = statfsSync(dataDir);
  const totalBytes = blocks * bsize;
  const percent = (totalBytes * lowWater.percent) / 100;
  const markBytes = Math.min(Math.max(percent, lowWater.mibMin * mib), lowWater.mibMax * mib);
  return { totalBytes, availableBytes: bavail * bsize, markBytes };
}

interface GroupPlaces {
  readonly own: string;
  readonly tree: string;
}

/** This process's group or one above it. Its paths; a file that goes with its group counts as no limit. */
interface Group {
  readonly limit: string;
  readonly usage: string;
  readonly stat: string;
}

/** Nothing where it has no limit now: an operator may set one later. */
function groupMemory(group: Group, host: Stock): readonly Stock[] {
  const totalBytes = limitOf(group.limit);
  if (totalBytes >= host.totalBytes) return [];
  // Files that were read and are not in use: the kernel takes their pages back before it refuses any.
  const stat = textOf(group.stat) ?? '';
  const idle = Number(
    idleLines.map((line) => line.exec(stat)?.[1]).find((found) => found !== undefined) ?? 0,
  );
  return [{ totalBytes, availableBytes: totalBytes - Number(textOf(group.usage) ?? 0) + idle }];
}

function groupsOf({ own, tree }: GroupPlaces): readonly Group[] {
  const lines = (textOf(own) ?? '').split('\n');
  return lines.flatMap((line) => {
    const [, controllers = '', path = ''] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    const isUnified = controllers === '';
    if (!isUnified && !controllers.split(',').includes('memory')) return [];
    const names = isUnified
      ? { limit: 'memory.max', usage: 'memory.current' }
      : { limit: 'memory.limit_in_bytes', usage: 'memory.usage_in_bytes' };
    const mount = join(tree, isUnified ? '' : 'memory');
    const parts = path.split('/').filter((part) => part !== '');
    return Array.from({ length: parts.length + 1 }, (_none, depth) => join(mount, ...parts.slice(0, depth)))
      .map((group) => ({
        limit: join(group, names.limit),
        usage: join(group, names.usage),
        stat: join(group, 'memory.stat'),
      }))
      .filter(({ limit }) => existsSync(limit));
  });
}

function limitOf(path: string): number {
  const text = textOf(path)?.trim();
  return text === undefined || text === 'max' ? Number.POSITIVE_INFINITY : Number(text);
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    // No such controller here, or the group is gone.
    return undefined;
  }
}
