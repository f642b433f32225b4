/** `@squash/sdk`: the public face. Records have the contract's names, but for `SandboxRecord`, whose name the class has. */
export { type Command, type ExecOptions, type StartOptions } from './commands.ts';
export {
  BadRequest,
  CommandFailed,
  Conflict,
  LimitReached,
  NotFound,
  ProtocolError,
  SquashError,
  TimedOut,
  Unauthorized,
  Unreachable,
} from './errors.ts';
export type { ExecResult } from './exec-result.ts';
export type { Execution } from './execution.ts';
export { version } from './operations.gen.ts';
export type * from './records.gen.ts';
export type { Context as ContextRecord, Sandbox as SandboxRecord } from './records.gen.ts';
export {
  type CreateOptions,
  type PauseOptions,
  Sandbox,
  type SandboxFilter,
  type SandboxModules,
  type WithClient,
} from './sandbox.ts';
export {
  type CellEvent,
  type CellOptions,
  type CellOutputOptions,
  Context,
  type ContextOptions,
  type Contexts,
} from './contexts.ts';
export type { ApprovalFilter, Approvals, StandingApprovals } from './approvals.ts';
export type { FilePath, Files, ReadOptions, Unpacked, WatchEvent, WriteOptions } from './files.ts';
export type { ActionFilter, Groups, ReadFilter } from './groups.ts';
export type { ScheduleFilter, ScheduleRunsFilter } from './schedules.ts';
export type { KeyFilter, Keys } from './keys.ts';
export type { Bucket, BucketPull, BucketPush } from './bucket.ts';
export type { ImageFilter, Images, PullOptions, PushOptions } from './images.ts';
export type { ModuleFilter, Modules } from './modules.ts';
export type { AppliedChange, ApplyOptions, Change, Changes } from './changes.ts';
export type { Mounts } from './mounts.ts';
export type { DecisionFilter, Network } from './network.ts';
export type { OwnerFilter, Owners } from './owners.ts';
export type { Ports } from './ports.ts';
export { outputBytes, type OutputOptions, Process, type ProcessEvent, type WaitOptions } from './process.ts';
export type { Processes, ProcessFilter } from './processes.ts';
export type { Secrets } from './secrets.ts';
export type { DiffOptions, SnapshotFilter, Snapshots } from './snapshots.ts';
export type { SshKeyFilter, SshKeys } from './ssh-keys.ts';
export type { VolumeFilter, Volumes } from './volumes.ts';
export type { Webhooks } from './webhooks.ts';
export type { Sandboxes } from './sandboxes.ts';
export {
  type AuditFilter,
  type AuditRecord,
  type EventFilter,
  type RunOptions,
  Squash,
  type SquashEvent,
  type SquashOptions,
} from './squash.ts';
export type { Connection, Signal } from './connection.ts';
export type { Upload } from './transport.ts';
