/**
 * Whether the host has room for another sandbox: what is promised to all, and what is to be had now.
 *
 * What a newcomer would get wrong: promises alone would refuse a hundred idle sandboxes on a host that has room for a
 * thousand, and what is free alone lets a burst of creates all see the same free memory. So what is free always counts,
 * less what starts that can't be measured yet will need; promises count where the operator bounds them.
 */
import type { Problem, Room } from '@squash/contract/daemon';
import { AppError, type ErrorCode } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { CreateRequest } from '@squash/contract/sandbox';
import type { Metric } from '@squash/base/metric';
import { type HostRoom, memoryBytesGiven } from '../drivers/driver.ts';
import { wishedBackend } from '../sandbox/backend.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { SandboxRow } from '#store/rows.ts';
import type { World } from '../sandbox/world.ts';
import type { Asking, Quotas } from './quotas.ts';
import type { Residents } from './residents.ts';

const mib = 1_048_576;

/** Percents of what the host has; 0: promises are not counted. */
export interface AdmissionRules {
  /** Of the host's memory, stays available. */
  readonly memoryReserveBytes: number;
  readonly memoryPercentMax: number;
  readonly cpuPercentMax: number;
  readonly diskPercentMax: number;
}

/** What sandboxes may take. */
export interface Promised {
  readonly memoryBytes: number;
  readonly cpus: number;
  readonly diskBytes: number;
}

type Resource = 'memory' | 'cpu' | 'disk';

export interface Shortage {
  readonly resource: Resource;
  readonly code: Extract<ErrorCode, 'host_full' | 'disk_full'>;
  /** What is short, and what would mend it. */
  readonly why: string;
}

/** Sandboxes whose memory can't be measured yet, with the one that is asked for: what each is taken to need. */
type Starts = readonly number[];

/** The state before a create, and the create. */
interface Asked {
  readonly room: HostRoom;
  /** With what is asked for. */
  readonly promised: Promised;
  readonly starting: Starts;
}

function shortageOf({ room, promised, starting }: Asked, rules: AdmissionRules): Shortage | undefined {
  return (
    shortageOfDisk(room) ??
    shortageOfMemory(room, starting, rules) ??
    overpromised(
      'memory',
      promised.memoryBytes / mib,
      (room.memory.totalBytes / mib) * rules.memoryPercentMax,
    ) ??
    overpromised('cpu', promised.cpus, room.cpus * rules.cpuPercentMax) ??
    overpromised('disk', promised.diskBytes / mib, (room.disk.totalBytes / mib) * rules.diskPercentMax)
  );
}

function shortageOfDisk({ disk: { availableBytes, markBytes } }: HostRoom): Shortage | undefined {
  if (availableBytes >= markBytes) return undefined;
  const why = `the data directory’s file system has ${inMib(availableBytes)} left, and ${inMib(markBytes)} are to stay free: remove sandboxes, snapshots or modules`;
  return { resource: 'disk', code: 'disk_full', why };
}

function shortageOfMemory(
  { memory: { availableBytes } }: HostRoom,
  starting: Starts,
  { memoryReserveBytes }: AdmissionRules,
): Shortage | undefined {
  const needed = starting.reduce((sum, bytes) => sum + bytes, 0);
  if (memoryReserveBytes === 0 || availableBytes - needed >= memoryReserveBytes) return undefined;
  const others = starting.length < 2 ? '' : `, ${starting.length - 1} other sandboxes are being started`;
  const why = `the host has ${inMib(availableBytes)} of memory available${others}, and SQUASH_MEMORY_RESERVE_MB keeps ${inMib(memoryReserveBytes)}: remove sandboxes, or try again later`;
  return { resource: 'memory', code: 'host_full', why };
}

const units = { memory: ' MiB of memory', cpu: ' processors', disk: ' MiB of disk' } as const;
const settingNames = {
  memory: 'SQUASH_MEMORY_OVERCOMMIT',
  cpu: 'SQUASH_CPU_OVERCOMMIT',
  disk: 'SQUASH_DISK_OVERCOMMIT',
} as const;

/** @param most in hundredths: 0 where promises are not counted */
function overpromised(resource: Resource, promised: number, most: number): Shortage | undefined {
  if (most === 0 || promised * 100 <= most) return undefined;
  const unit = units[resource];
  const why = `all sandboxes together would be promised ${rounded(promised)}${unit}, and ${settingNames[resource]} allows ${rounded(most / 100)}: ask for less, or remove sandboxes`;
  return { resource, code: 'host_full', why };
}

export interface AdmissionParts {
  readonly residents: Residents;
  readonly quotas: Quotas;
  readonly rules: AdmissionRules;
}

export class Admission {
  readonly #world: World;
  readonly #residents: Residents;
  readonly #quotas: Quotas;
  readonly #rules: AdmissionRules;
  /** Creates that have no row yet. */
  readonly #reserved = new Map<SandboxId, Asking & { readonly startBytes: number }>();
  /** What sandboxes are to have more, before their rows say it. */
  readonly #growing = new Set<Asking>();
  readonly #refused: Record<Resource, number> = { memory: 0, cpu: 0, disk: 0 };

  constructor(world: World, parts: AdmissionParts) {
    this.#world = world;
    this.#residents = parts.residents;
    this.#quotas = parts.quotas;
    this.#rules = parts.rules;
  }

  /** Sandboxes that are here or on their way. */
  get count(): number {
    return this.#residents.count + this.#reserved.size;
  }

  has(id: SandboxId): boolean {
    return this.#residents.peek(id) !== undefined || this.#reserved.has(id);
  }

  /** Takes a place for a create, until `release`. @throws quota_exceeded, host_full, disk_full */
  reserve(request: CreateRequest): void {
    const what = `create sandbox "${request.id}"`;
    const backend = wishedBackend(this.#world, request);
    const own = {
      owner: request.owner,
      sandboxes: 1 as const,
      startBytes: limits.startMemoryBytes[backend],
      memoryBytes: memoryBytesGiven(backend, request.memoryMb * mib),
      cpus: request.cpu,
      diskBytes: this.#diskBytes(this.#world.fixedLimits.upperBytesMax),
    };
    this.#quotas.checkCreate(what, own, [...this.#reserved.values(), ...this.#growing]);
    this.#check(what, own);
    this.#reserved.set(request.id, own);
  }

  /** Its row counts from now on, or it failed. */
  release(id: SandboxId): void {
    this.#reserved.delete(id);
  }

  /** For a snapshot that time asks for. @throws disk_full, quota_exceeded */
  checkSnapshot(sandbox: Sandbox): void {
    const { id, owner } = sandbox.row;
    this.checkAgain('take a snapshot of', sandbox);
    this.#quotas.holdDisk(`take a snapshot of sandbox "${id}"`, owner, 1)[Symbol.dispose]();
  }

  /** For one at rest that is to run again, with the files that it has: a full disk keeps nobody from making room in it. @throws host_full */
  checkStart({ id, backend }: Pick<SandboxRow, 'id' | 'backend'>): void {
    const starting = [limits.startMemoryBytes[backend], ...this.#starting()];
    const short = shortageOfMemory(this.#world.driver.room(), starting, this.#rules);
    this.#refuse(`start sandbox "${id}"`, short);
  }

  /** For an operation that makes a new upper, or starts what does not run. @throws host_full, disk_full */
  checkAgain(what: string, sandbox: Sandbox): void {
    const room = this.#world.driver.room();
    const isDown = sandbox.state.phase === 'failed' || sandbox.state.phase === 'stopped';
    const starting = [limits.startMemoryBytes[sandbox.row.backend], ...this.#starting()];
    const short =
      shortageOfDisk(room) ?? (isDown ? shortageOfMemory(room, starting, this.#rules) : undefined);
    this.#refuse(`${what} sandbox "${sandbox.row.id}"`, short);
  }

  /** For a sandbox that is to have more, or less: its row counts when what this returns is disposed of. @throws quota_exceeded, host_full */
  grow({ row }: Sandbox, more: Pick<Promised, 'cpus' | 'memoryBytes'>): Disposable {
    const what = `change sandbox "${row.id}"`;
    const growth: Asking = {
      owner: row.owner,
      sandboxes: 0,
      memoryBytes: Math.max(0, more.memoryBytes),
      cpus: Math.max(0, more.cpus),
      diskBytes: 0,
    };
    this.#quotas.checkGrowth(what, growth, [...this.#reserved.values(), ...this.#growing]);
    this.#checkGrowth(what, growth);
    this.#growing.add(growth);
    return { [Symbol.dispose]: () => void this.#growing.delete(growth) };
  }

  #checkGrowth(what: string, growth: Asking): void {
    const { memoryPercentMax, cpuPercentMax, diskPercentMax } = this.#rules;
    if (memoryPercentMax + cpuPercentMax + diskPercentMax === 0) return;
    if (growth.cpus === 0 && growth.memoryBytes === 0) return;
    const promised = sum([this.#promised(), growth]);
    const { memory, cpus } = this.#world.driver.room();
    this.#refuse(
      what,
      overpromised('memory', promised.memoryBytes / mib, (memory.totalBytes / mib) * memoryPercentMax) ??
        overpromised('cpu', promised.cpus, cpus * cpuPercentMax),
    );
  }

  problems(): readonly Problem[] {
    const short = shortageOfMemory(this.#world.driver.room(), [], this.#rules);
    return short === undefined
      ? []
      : [{ code: 'memory_low', message: `no sandbox can be created: ${short.why}` }];
  }

  /** As `daemon.info` tells it. */
  room(): Room {
    const room = this.#world.driver.room();
    const promised = this.#promised();
    const { memoryPercentMax, cpuPercentMax, diskPercentMax, memoryReserveBytes } = this.#rules;
    const bounded = (total: number, percent: number): number | null =>
      percent === 0 ? null : (total * percent) / 100;
    const { memory, cpus, disk } = room;
    return {
      memory: {
        total: memory.totalBytes,
        available: memory.availableBytes,
        kept: memoryReserveBytes,
        promised: promised.memoryBytes,
        promised_max: bounded(memory.totalBytes, memoryPercentMax),
      },
      cpu: { total: cpus, promised: promised.cpus, promised_max: bounded(cpus, cpuPercentMax) },
      disk: {
        total: disk.totalBytes,
        available: disk.availableBytes,
        kept: Math.ceil(disk.markBytes),
        promised: promised.diskBytes,
        promised_max: bounded(disk.totalBytes, diskPercentMax),
      },
    };
  }

  metrics(): readonly Metric[] {
    const { memory, cpu, disk } = this.room();
    const gauge = (name: string, help: string, values: Readonly<Record<string, number>>): Metric => ({
      name,
      help,
      type: 'gauge',
      samples: Object.entries(values).map(([resource, value]) => ({ labels: { resource }, value })),
    });
    return [
      gauge('squash_host_total', 'What the host has: bytes, processors', {
        memory: memory.total,
        cpu: cpu.total,
        disk: disk.total,
      }),
      gauge('squash_host_available', 'Bytes of it to be had now', {
        memory: memory.available,
        disk: disk.available,
      }),
      gauge('squash_host_promised', 'What all sandboxes together may take', {
        memory: memory.promised,
        cpu: cpu.promised,
        disk: disk.promised,
      }),
      {
        name: 'squash_admission_refused_total',
        help: 'Requests refused for want of room on the host since the daemon began',
        type: 'counter',
        samples: Object.entries(this.#refused).map(([resource, value]) => ({ labels: { resource }, value })),
      },
    ];
  }

  #check(what: string, own: Promised & { readonly startBytes: number }): void {
    const { memoryPercentMax, cpuPercentMax, diskPercentMax } = this.#rules;
    // Ten thousand rows are not looked at for a sum that nothing bounds.
    const isCounted = memoryPercentMax + cpuPercentMax + diskPercentMax > 0;
    const promised = isCounted ? sum([this.#promised(), own]) : own;
    const starting = [own.startBytes, ...this.#starting()];
    const asked = { room: this.#world.driver.room(), promised, starting };
    this.#refuse(what, shortageOf(asked, this.#rules));
  }

  #refuse(what: string, short: Shortage | undefined): void {
    if (short === undefined) return;
    this.#refused[short.resource] += 1;
    throw new AppError(short.code, `Cannot ${what}: ${short.why}`);
  }

  #promised(): Promised {
    const rows = this.#residents
      .all()
      .map(({ row: { backend, memoryMb, cpu, limits: held, upperKind } }) => ({
        memoryBytes: memoryBytesGiven(backend, memoryMb * mib),
        cpus: cpu,
        diskBytes: this.#diskBytes(held.upperBytesMax, upperKind),
      }));
    return sum([...rows, ...this.#reserved.values(), ...this.#growing]);
  }

  #starting(): Starts {
    const starting = this.#residents
      .all()
      .filter(({ state }) => state.phase === 'creating' || state.phase === 'restarting');
    return [
      ...starting.map(({ row }) => limits.startMemoryBytes[row.backend]),
      ...[...this.#reserved.values()].map((each) => each.startBytes),
      ...Array<number>(this.#world.readers.size).fill(limits.startMemoryBytes.vm),
    ];
  }

  /** Uppers in memory take none of the disk: they count as memory where they are filled. */
  #diskBytes(bytes: number, kind = this.#world.driver.upperKind): number {
    return kind === 'tmpfs' ? 0 : bytes;
  }
}

function sum(parts: readonly Promised[]): Promised {
  const total = { memoryBytes: 0, cpus: 0, diskBytes: 0 };
  for (const { memoryBytes, cpus, diskBytes } of parts) {
    total.memoryBytes += memoryBytes;
    total.cpus += cpus;
    total.diskBytes += diskBytes;
  }
  return total;
}

function inMib(bytes: number): string {
  return `${Math.floor(bytes / mib)} MiB`;
}

function rounded(value: number): string {
  return String(Math.round(value * 100) / 100);
}
