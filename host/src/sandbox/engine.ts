/**
 * The engine's face to the API: one method per operation. Requests are parsed already; failures are `AppError`.
 * `LocalEngine` (in `local-engine.ts`) implements it over driver, layer store, guest and store.
 */
import type { ExecRecord, ExecStart, JobInfo, ShellExecRequest } from '@squash/contract/exec';
import type { ModuleName, SandboxId, SnapshotLabel } from '@squash/contract/ids';
import type { PolicySource } from '@squash/contract/policy';
import type { CreateRequest, SandboxInfo } from '@squash/contract/sandbox';
import type { ModuleInfo } from '../layers/layer-store.ts';
import type { NetworkRules } from './network.ts';

export interface JobLogLine {
  /** Rises by one per line of a job from 1: the SSE event id, and what `after` resumes behind. */
  readonly number: number;
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
}

/** A native exec in progress, as the API's WebSocket drives it. */
export interface ExecSession {
  readonly seq: number;
  readonly pid: number;
  events(): AsyncIterableIterator<
    | { readonly type: 'output'; readonly stream: 'stdout' | 'stderr'; readonly data: Buffer }
    | { readonly type: 'exit'; readonly record: ExecRecord; readonly signal: number | undefined }
  >;
  writeStdin(chunk: Uint8Array): Promise<void>;
  endStdin(): void;
  resize(rows: number, columns: number): void;
  signal(signo: number): void;
  /** The client is gone: SIGHUP, then the engine drains and records the rest; with `detach` it just goes on. */
  abandon(): void;
}

export interface EngineHealth {
  readonly sandboxes: number;
  readonly modules: number;
  readonly baseReady: boolean;
}

export interface Engine {
  health(): Promise<EngineHealth>;
  modules(): Promise<readonly ModuleInfo[]>;
  importModule(
    hostPath: string,
    name: ModuleName,
    options: { readonly replace: boolean },
  ): Promise<ModuleInfo>;
  removeModule(name: ModuleName): Promise<void>;
  create(request: CreateRequest, signal?: AbortSignal): Promise<SandboxInfo>;
  /** Sorted by id. */
  list(): readonly SandboxInfo[];
  get(id: SandboxId): SandboxInfo;
  destroy(id: SandboxId): Promise<void>;
  exec(id: SandboxId, request: ShellExecRequest): Promise<ExecRecord>;
  execStream(id: SandboxId, start: ExecStart): Promise<ExecSession>;
  execBackground(id: SandboxId, request: ShellExecRequest): Promise<JobInfo>;
  jobs(id: SandboxId): readonly JobInfo[];
  job(id: SandboxId, jobId: number): JobInfo;
  /** Stored lines after `after`, then live ones; ends when the job has ended and all lines were given. */
  jobLog(id: SandboxId, jobId: number, after: number, signal: AbortSignal): AsyncIterableIterator<JobLogLine>;
  /** TERM, 2 s, KILL to the job's process group; resolves when it ended. Idempotent. */
  killJob(id: SandboxId, jobId: number): Promise<void>;
  activate(id: SandboxId, module: ModuleName): Promise<SandboxInfo>;
  /** Default label: `YYYYMMDD-HHMMSS`, UTC. */
  snapshot(
    id: SandboxId,
    label?: SnapshotLabel,
  ): Promise<{ readonly label: SnapshotLabel; readonly size: number; readonly pauseMs: number }>;
  restore(id: SandboxId, label: SnapshotLabel): Promise<SandboxInfo>;
  /** What a sandbox may reach, and whether that is in force by now. */
  networkRules(id: SandboxId): NetworkRules & { readonly isInForce: boolean };
  /** Resolves when it is in force, or known not to be. */
  setPolicy(id: SandboxId, policy: PolicySource): Promise<void>;
  /** Oldest first, by number. */
  logs(id: SandboxId, page?: { readonly after: number; readonly limit: number }): readonly ExecRecord[];
  /** Counters and gauges for `/metrics`. */
  metrics(): Promise<
    readonly {
      readonly name: string;
      readonly help: string;
      readonly type: 'counter' | 'gauge';
      readonly samples: readonly {
        readonly labels: Readonly<Record<string, string>>;
        readonly value: number;
      }[];
    }[]
  >;
}
