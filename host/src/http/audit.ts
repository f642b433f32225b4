/**
 * What the HTTP layer tells the audit: who asked for what, whether he might, and how it was answered.
 *
 * The line is handed to the kernel before the answer is: whoever has an answer finds its line, also where the daemon is killed
 * in the next moment.
 */
import type { AuditCaller, AuditEntry } from '@squash/contract/audit';
import type { AppError, ErrorCode } from '@squash/contract/errors';
import { anybody, type Caller, NotSeen } from './caller.ts';

/** A request as all of its lines tell it. */
export interface Asked {
  /** Answered as `squash-request-id`. Random: a number that rises would tell each client how much others ask. */
  readonly requestId: string;
  readonly peer: AuditEntry['peer'];
}

/** Takes lines; `AuditLog` is one. Never throws: what can't be written is counted and told. */
export interface Audit {
  write(line: AuditLine): void;
  /** Of somebody whom the gate has refused, or of a visit by a link: so many have a line, the rest is counted. */
  writeBounded(line: AuditLine): void;
}

export type AuditLine = Omit<AuditEntry, 'at' | 'dropped' | 'lost'>;

export interface Answered extends Asked {
  readonly caller: Caller;
  readonly operation: string | null;
  readonly sandbox?: string | undefined;
  readonly stage?: AuditEntry['stage'];
  readonly error?: AppError | undefined;
  readonly status: number;
  readonly durationMs: number;
}

const sandboxCharsMax = 128;

export function auditLine(answered: Answered): AuditLine {
  const { requestId, peer, caller, operation, sandbox, stage, error, status, durationMs } = answered;
  return {
    request_id: requestId,
    caller: auditCaller(caller),
    peer,
    operation,
    sandbox: sandbox === undefined ? null : sandbox.slice(0, sandboxCharsMax),
    stage: stage ?? 'whole',
    // To who is nobody every error is a refusal: of a login over SSH, say.
    decision: error !== undefined && (caller === anybody || isRefusal(error)) ? 'refused' : 'allowed',
    code: error?.code ?? null,
    status,
    duration_ms: Math.round(durationMs * 1_000) / 1_000,
  };
}

export function auditCaller(caller: Caller): AuditCaller {
  if (caller.held !== null) {
    const { id, name, owner, scope } = caller.held;
    return { kind: 'key', key: id, name, owner, scope };
  }
  return { kind: caller.owner === null ? 'operator' : 'unknown' };
}

const refusals: ReadonlySet<ErrorCode> = new Set([
  'unauthorized',
  'token_required',
  'origin_refused',
  'forbidden',
  'quota_exceeded',
]);

function isRefusal(error: AppError): boolean {
  return error instanceof NotSeen || refusals.has(error.code);
}
