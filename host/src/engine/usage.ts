/**
 * What sandboxes use: asked of driver, upper and network when somebody asks, and now and then while a sandbox is in use, so
 * that there is a history when somebody does.
 *
 * What a newcomer would get wrong: most sandboxes are idle most of the time, and a thousand of them must cost next to
 * nothing. `isDue` says whom a round asks; nobody else is looked at beyond that.
 */
import { type Clock, rfc3339 } from '@squash/base/clock';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { SandboxUsage, UsageSample } from '@squash/contract/usage';
import type { Driver, SandboxStats } from '../drivers/driver.ts';
import type { SandboxNetwork, Traffic } from '../sandbox/network.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Residents } from './residents.ts';
import { cpuBetween, type Measured, UsageRing } from './usage-ring.ts';

export interface Usage {
  /** @throws sandbox_not_found */
  of(id: SandboxId): Promise<SandboxUsage>;
}

/** What is kept of a sandbox that was measured. */
interface Meter {
  /** Undefined where all that it held is too old. */
  ring: UsageRing | undefined;
  /** The newest, in the ring or not. */
  last: Measured | undefined;
  /** Of the ring. */
  sampledMs: number;
  askedMs: number;
  cpuUsLately: number | null;
}

/** What `isDue` looks at; times are monotonic, and -Infinity where it never was. */
export interface DueFacts {
  readonly isRunning: boolean;
  /** Since a client did something with it. */
  readonly idleMs: number;
  readonly hasCommands: boolean;
  readonly sampledMs: number;
  readonly askedMs: number;
  /** Used between its last two samples. */
  readonly cpuUsLately: number | null;
}

/** Whether a round at `nowMs` asks for this sandbox's figures. */
export function isDue(facts: DueFacts, nowMs: number): boolean {
  if (!facts.isRunning) return false;
  if (nowMs - facts.askedMs < limits.usageLatelyMs || facts.idleMs < limits.usageLatelyMs) return true;
  if ((facts.cpuUsLately ?? 0) >= limits.usageBusyCpuUs) return true;
  // A server that waits for requests: often enough to notice that it works again.
  return facts.hasCommands && nowMs - facts.sampledMs >= limits.usageWaitingMs;
}

export interface UsageOptions {
  readonly residents: Pick<Residents, 'all' | 'find'>;
  readonly driver: Pick<Driver, 'stats'>;
  readonly network: Pick<SandboxNetwork, 'traffic'>;
  readonly clock: Clock;
}

export class LocalUsage implements Usage, Disposable {
  readonly #options: UsageOptions;
  readonly #meters = new WeakMap<Sandbox, Meter>();
  #timer: NodeJS.Timeout | undefined;
  #beganMs = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(options: UsageOptions) {
    this.#options = options;
  }

  /** From now on those in use are measured. */
  begin(): void {
    this.#beganMs = this.#nowMs();
    this.#arm();
  }

  async of(id: SandboxId): Promise<SandboxUsage> {
    const sandbox = this.#options.residents.find(id);
    const meter = this.#meterOf(sandbox);
    meter.askedMs = this.#nowMs();
    const earlier = meter.last;
    // Who asks in a loop gets the same answer for a while.
    const now =
      earlier !== undefined && meter.askedMs - earlier.atMs < limits.usageFreshMs
        ? earlier
        : await this.#measure(sandbox, (await this.#traffic([sandbox])).get(id));
    // What was written since is measured soon.
    sandbox.usage.touch();
    const history = this.#history(meter);
    meter.last = now;
    const before = [...history, ...(earlier === undefined ? [] : [earlier])]
      .toSorted((one, other) => one.atMs - other.atMs)
      .findLast(({ atMs }) => atMs < now.atMs);
    const { limits: held, cpu } = sandbox.row;
    return {
      ...this.#shown(now, before),
      cpu_limit: cpu,
      memory_limit_bytes: held.memoryBytesMax,
      pids_limit: held.pidsMax,
      disk_limit_bytes: held.upperBytesMax,
      disk_limit_inodes: held.upperInodesMax,
      history: history.map((one, at) => this.#shown(one, history[at - 1])),
    };
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #arm(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(
      () => void this.#round().finally(() => this.#arm()),
      limits.usageSampleMs,
    ).unref();
  }

  async #round(): Promise<void> {
    const nowMs = this.#nowMs();
    const due = this.#options.residents.all().filter((sandbox) => this.#isDue(sandbox, nowMs));
    if (due.length === 0) return;
    const traffic = await this.#traffic(due);
    for (const sandbox of due) {
      if (this.#isClosed) return;
      const measured = await this.#measure(sandbox, traffic.get(sandbox.row.id));
      const meter = this.#meterOf(sandbox);
      meter.cpuUsLately = cpuBetween(meter.ring?.all().at(-1), measured);
      meter.ring ??= new UsageRing();
      meter.ring.push(measured);
      meter.last = measured;
      meter.sampledMs = nowMs;
    }
  }

  #isDue(sandbox: Sandbox, nowMs: number): boolean {
    const meter = this.#meters.get(sandbox);
    // Nothing in it is young enough to be shown.
    if (meter !== undefined && nowMs - meter.sampledMs > limits.usageHistoryMs) meter.ring = undefined;
    const facts = {
      isRunning: sandbox.state.phase === 'ready',
      idleMs: this.#idleMs(sandbox, nowMs),
      hasCommands: sandbox.runs.size > 0,
      sampledMs: meter?.sampledMs ?? -Infinity,
      askedMs: meter?.askedMs ?? -Infinity,
      cpuUsLately: meter?.cpuUsLately ?? null,
    };
    return isDue(facts, nowMs);
  }

  /** What an earlier daemon saw of it is its last command. */
  #idleMs({ activity, row }: Sandbox, nowMs: number): number {
    return activity.usedMs > this.#beganMs
      ? nowMs - activity.usedMs
      : this.#options.clock.wallMs() - row.lastActiveMs;
  }

  #meterOf(sandbox: Sandbox): Meter {
    const known = this.#meters.get(sandbox);
    if (known !== undefined) return known;
    const meter: Meter = {
      ring: undefined,
      last: undefined,
      sampledMs: -Infinity,
      askedMs: -Infinity,
      cpuUsLately: null,
    };
    this.#meters.set(sandbox, meter);
    return meter;
  }

  #history(meter: Meter): readonly Measured[] {
    const fromMs = this.#nowMs() - limits.usageHistoryMs;
    return (meter.ring?.all() ?? []).filter(({ atMs }) => atMs >= fromMs);
  }

  async #measure(sandbox: Sandbox, traffic: Traffic | undefined): Promise<Measured> {
    const { phase } = sandbox.state;
    const stats = phase === 'ready' || phase === 'paused' ? await this.#stats(sandbox) : undefined;
    const disk = sandbox.usage.measured;
    return {
      atMs: this.#nowMs(),
      cpuUs: counted(stats?.cpuUs),
      memoryBytes: counted(stats?.memoryBytes),
      pids: counted(stats?.pids),
      diskBytes: disk?.bytes ?? null,
      diskInodes: disk?.inodes ?? null,
      inBytes: traffic?.inBytes ?? null,
      outBytes: traffic?.outBytes ?? null,
      connections: traffic?.connections ?? null,
      connectionsOpen: traffic?.open ?? null,
    };
  }

  async #stats(sandbox: Sandbox): Promise<SandboxStats | undefined> {
    try {
      return await this.#options.driver.stats(sandbox.row.id);
    } catch {
      // It ended meanwhile, or the launcher is away: then it is not known, and health tells the latter.
      return undefined;
    }
  }

  #traffic(sandboxes: readonly Sandbox[]): Promise<ReadonlyMap<SandboxId, Traffic>> {
    return this.#options.network.traffic(sandboxes.map(({ row }) => row.id));
  }

  #shown(measured: Measured, before: Measured | undefined): UsageSample {
    const cpuUs = cpuBetween(before, measured);
    const tookUs = before === undefined ? 0 : (measured.atMs - before.atMs) * 1_000;
    const { clock } = this.#options;
    return {
      at: rfc3339(clock.wallMs() - (clock.monoMs() - measured.atMs)),
      cpu_us: measured.cpuUs,
      cpu_percent: cpuUs === null || tookUs === 0 ? null : Math.round((1_000 * cpuUs) / tookUs) / 10,
      memory_bytes: measured.memoryBytes,
      pids: measured.pids,
      disk_bytes: measured.diskBytes,
      disk_inodes: measured.diskInodes,
      network_in_bytes: measured.inBytes,
      network_out_bytes: measured.outBytes,
      connections: measured.connections,
      connections_open: measured.connectionsOpen,
    };
  }

  #nowMs(): number {
    return this.#options.clock.monoMs();
  }
}

/** PID 1 has a page, a moment of processor time, and itself: a group that says nothing of the kind does not count. */
function counted(value: number | undefined): number | null {
  return value === undefined || value === 0 ? null : value;
}
