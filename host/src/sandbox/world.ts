/**
 * What every sandbox shares: the ports, the store, the clock, and the few things that are counted or limited
 * over all of them. Made once by `LocalEngine`.
 */
import type { Clock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { EndReason, SandboxRow } from '#store/rows.ts';
import type { Store } from '#store/store.ts';
import type { Backend } from '@squash/contract/backend';
import type { SandboxId } from '@squash/contract/ids';
import type { Driver, RunningSandbox, SandboxLimits } from '../drivers/driver.ts';
import type { Guest } from '../guest/guest.ts';
import type { LayerStore } from '../layers/layer-store.ts';
import type { EventPort } from './event-port.ts';
import type { SandboxFiles } from './files.ts';
import type { Semaphore, SharedLock } from './mailbox.ts';
import type { HostRoots } from './host-root.ts';
import type { MountSources } from './mounts.ts';
import type { SandboxNetwork } from './network.ts';
import type { OutputBudget } from './output-budget.ts';
import type { BringModules, RemoteSnapshots } from './remote-snapshots.ts';
import type { OutputPace } from './output-pace.ts';

/** What the configuration sets for every sandbox; cpu and memory come with the create request. */
export type FixedLimits = Omit<SandboxLimits, 'cpuMilli' | 'memoryBytesMax'>;

/** What all sandboxes of one owner may have together. */
export interface CommandQuotas {
  /** @throws quota_exceeded */
  checkExec(row: SandboxRow): void;
}

export interface World {
  readonly store: Store;
  readonly driver: Driver;
  /** Of sandboxes that ask for none. */
  readonly backend: Backend;
  readonly layers: LayerStore;
  readonly files: SandboxFiles;
  readonly log: Log;
  readonly clock: Clock;
  readonly network: SandboxNetwork;
  readonly events: EventPort;
  readonly mounts: MountSources;
  readonly hostRoots: HostRoots;
  readonly fixedLimits: FixedLimits;
  readonly requiresLimits: boolean;
  readonly guestOf: (running: RunningSandbox) => Guest;
  /** Starts that nobody waits for (after a reboot, after a death) take turns. Those of microVMs among themselves: one may be kept up for minutes. */
  readonly starts: Readonly<Record<Backend, Semaphore>>;
  /** MicroVMs that are being started to be read: no sandbox's state shows them. */
  readonly readers: Set<SandboxId>;
  /** The daemon ends: nobody waits any more for what is read of a microVM that does not run. */
  readonly ending: AbortController;
  readonly usages: Semaphore;
  /** Shared by whoever turns names into trees and trees into rows; exclusive for who collects unused trees. */
  readonly layerLock: SharedLock;
  readonly quotas: CommandQuotas;
  /** Whether the host has room for one that does not run. @throws host_full */
  readonly checkStart: (row: SandboxRow) => void;
  /** undefined: there is no bucket. */
  readonly remote: RemoteSnapshots | undefined;
  readonly bringModules: BringModules;
  readonly counters: Counters;
  readonly pace: OutputPace;
  readonly outputBudget: OutputBudget;
}

/** Totals since this daemon began. */
export interface Counters {
  created: number;
  destroyed: number;
  reaped: number;
  restarts: number;
  snapshots: number;
  outputBytes: number;
  execs: Record<EndReason, number>;
}

export function newCounters(): Counters {
  return {
    created: 0,
    destroyed: 0,
    reaped: 0,
    restarts: 0,
    snapshots: 0,
    outputBytes: 0,
    execs: {
      exited: 0,
      signaled: 0,
      timed_out: 0,
      oom_killed: 0,
      upper_full: 0,
      layers_changed: 0,
      destroyed: 0,
      killed: 0,
      stopped: 0,
      lost: 0,
    },
  };
}
