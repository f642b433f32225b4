/**
 * What goes wrong, as programs catch it: one class with a code, and one below it for each kind of thing that a program does about it.
 *
 * A newcomer would look for an error for a command that fails: it is a result with its exit code, until `check()` is asked.
 */
import type { ExecResult } from './exec-result.ts';
import type { Execution } from './execution.ts';

export interface ErrorParts {
  /** For programs; docs/errors.md has those of the daemon. Its meaning never changes. */
  readonly code: string;
  readonly message: string;
  /** HTTP's; 0 where there was no answer. */
  readonly status?: number;
  /** What the caller can do about it; empty where nobody knows. */
  readonly remedy?: string;
  /** Method and path. */
  readonly request?: string;
  readonly cause?: unknown;
}

export class SquashError extends Error {
  readonly code: string;
  readonly status: number;
  readonly remedy: string;
  /** Method and path; empty where none was sent. */
  readonly request: string;

  constructor(parts: ErrorParts) {
    super(parts.message, parts.cause === undefined ? undefined : { cause: parts.cause });
    this.name = new.target.name;
    this.code = parts.code;
    this.status = parts.status ?? 0;
    this.remedy = parts.remedy ?? '';
    this.request = parts.request ?? '';
  }

  /** Says what was asked for, where whoever made the error did not know. */
  of(request: string): this {
    return this.request === '' ? Object.assign(this, { request }) : this;
  }
}

/** What was asked for does not exist (404). */
export class NotFound extends SquashError {}
/** The caller may not do that, or nobody knows who he is (401, 403). */
export class Unauthorized extends SquashError {}
/** Not in the state in which the thing is (409, 412). */
export class Conflict extends SquashError {}
/** Somebody has as much as he may have, or the machine as much as it can (429, 507, and 503 for want of room). */
export class LimitReached extends SquashError {}
/** The request is wrong (400, 413, 415, 416, 422). */
export class BadRequest extends SquashError {}
/** No daemon there, or one that broke off or was silent for too long: then nobody knows whether the request was carried out. */
export class Unreachable extends SquashError {
  readonly how: 'not_there' | 'broken_off' | 'silent';

  constructor(how: Unreachable['how'], parts: Omit<ErrorParts, 'code'>) {
    super({ ...parts, code: 'unreachable' });
    this.how = how;
  }
}
/** What answers is no Squash daemon, one that is too old, or breaks what it promises. */
export class ProtocolError extends SquashError {}
/** What was waited for has not happened in time (504, 408). */
export class TimedOut extends SquashError {}

/** A command ended with another code than 0, or a cell did not end well: only `check()` throws it. */
export class CommandFailed extends SquashError {
  readonly result: ExecResult | Execution;

  constructor(message: string, result: ExecResult | Execution) {
    super({ code: 'command_failed', message, remedy: 'Look at the result: what it wrote, and how it ended' });
    this.result = result;
  }
}

/** Lack of room that has another status in HTTP. */
const roomCodes = ['host_full', 'sandbox_limit', 'connection_limit', 'mount_limit'];

/** The error for an answer that refuses. */
export function refusalError(parts: ErrorParts & { readonly status: number }): SquashError {
  const { status, code } = parts;
  if (roomCodes.includes(code) || status === 429 || status === 507) return new LimitReached(parts);
  if (status === 401 || status === 403) return new Unauthorized(parts);
  if (status === 404) return new NotFound(parts);
  if (status === 409 || status === 412) return new Conflict(parts);
  if (status === 504 || status === 408) return new TimedOut(parts);
  if (status >= 400 && status < 500) return new BadRequest(parts);
  return new SquashError(parts);
}

/** A mistake of the calling program that no request is needed to see. */
export function badRequest(message: string): BadRequest {
  return new BadRequest({ code: 'invalid_request', message });
}
