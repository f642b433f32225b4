/**
 * The engine's face to the API: a noun each, whose methods are the operations. Requests are parsed already; failures are
 * `AppError`. `local-engine.ts` puts it together over driver, layer store, guest and store.
 */
import type { Problem, Room } from '@squash/contract/daemon';
import type { Metric } from '@squash/base/metric';
import type { Events } from './events.ts';
import type { Contexts } from './contexts.ts';
import type { Files } from './files.ts';
import type { Keys } from './keys.ts';
import type { SshKeys } from './ssh-keys.ts';
import type { Approvals } from './approvals.ts';
import type { BucketNoun } from './bucket.ts';
import type { Callers } from './callers.ts';
import type { Images } from './images.ts';
import type { Modules } from './modules.ts';
import type { Network } from './network.ts';
import type { Owners } from './owners.ts';
import type { Ports } from './ports.ts';
import type { Processes } from './processes.ts';
import type { Sandboxes } from './sandboxes.ts';
import type { Snapshots } from './snapshots.ts';
import type { Usage } from './usage.ts';
import type { Changes } from './changes.ts';
import type { Paths } from './paths.ts';
import type { Volumes } from './volumes.ts';

export interface EngineHealth {
  readonly sandboxes: number;
  readonly modules: number;
  readonly baseReady: boolean;
}

export interface Engine {
  readonly sandboxes: Sandboxes;
  readonly processes: Processes;
  readonly contexts: Contexts;
  readonly files: Files;
  readonly modules: Modules;
  readonly images: Images;
  readonly snapshots: Snapshots;
  readonly bucket: BucketNoun;
  readonly volumes: Volumes;
  readonly changes: Changes;
  readonly paths: Paths;
  readonly network: Network;
  readonly keys: Keys;
  readonly sshKeys: SshKeys;
  readonly owners: Owners;
  readonly usage: Usage;
  readonly events: Events;
  readonly ports: Ports;
  readonly callers: Callers;
  readonly approvals: Approvals;
  health(): Promise<EngineHealth>;
  /** What does not work as it should for all sandboxes, now; empty when all is well. */
  problems(): readonly Problem[];
  /** What the host has for sandboxes, and what of it is promised. */
  room(): Room;
  /** Counters and gauges for `/metrics`. */
  metrics(): Promise<readonly Metric[]>;
}
