/** `@squash/sdk`: the public face. Records have the contract's names, but for `SandboxRecord`, whose name the class has. */
export { type Command, type ExecOptions } from './commands.ts';
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
export { version } from './operations.gen.ts';
export type * from './records.gen.ts';
export type { Sandbox as SandboxRecord } from './records.gen.ts';
export {
  type CreateOptions,
  type PauseOptions,
  Sandbox,
  type SandboxFilter,
  type WithClient,
} from './sandbox.ts';
export type { Sandboxes } from './sandboxes.ts';
export { type RunOptions, Squash, type SquashOptions } from './squash.ts';
export type { Connection, Signal } from './connection.ts';
export type { Upload } from './transport.ts';
