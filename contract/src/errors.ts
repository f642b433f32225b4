/**
 * The error catalogue: one row is the only place where a code's status and retry rule are written.
 *
 * `/cgi-bin` answers `{"error": <seed sentence>, "code": <code>}`, `/v1` answers RFC 9457 problem details
 * with the same code, `detail` for the cause and `remedy` for what mends it. Codes are never renamed. `status` is
 * the original's, which says 400 to nearly everything; where HTTP has a better word, `/v1` says `nativeStatus`.
 */
import { contextErrors } from './context-errors.ts';
import { fileErrorCatalog } from './file-errors.ts';
import { groupErrors } from './group-errors.ts';
import { hostRootErrors } from './host-root-errors.ts';
import { vmErrors } from './vm-errors.ts';
import { portErrors } from './port-errors.ts';
import { processErrors } from './process-errors.ts';
import { imageErrors } from './image-errors.ts';
import { moduleErrors } from './module-errors.ts';
import { volumeErrors } from './volume-errors.ts';

export const errorCatalog = {
  invalid_request: {
    status: 400,
    retry: 'never',
    summary: 'The request is malformed',
    remedy: 'Send what `detail` names as the description in /openapi.json has it',
  },
  invalid_json: {
    status: 400,
    retry: 'never',
    summary: 'The body is not valid JSON',
    remedy: 'Send a JSON object in UTF-8',
  },
  unauthorized: {
    status: 401,
    retry: 'never',
    summary: 'The bearer token is missing or wrong, or its key has expired or was removed',
    remedy: 'Send `Authorization: Bearer` with SQUASH_AUTH_TOKEN or a key that holds',
  },
  token_required: {
    status: 401,
    retry: 'never',
    summary:
      'There is no token, and the connection is of another user than the daemon’s, or nobody knows whose',
    remedy:
      'Set SQUASH_AUTH_TOKEN where the daemon is started and send it, or ask as the user who started it',
  },
  forbidden: {
    status: 403,
    retry: 'never',
    summary: 'The key may not do this',
    remedy: 'Ask with a key of a wider scope, or of that owner',
  },
  origin_refused: {
    status: 403,
    retry: 'never',
    summary: 'The request comes from a foreign web page or names a foreign host',
    remedy:
      'Ask at an IP address or localhost, or name the host in SQUASH_ALLOWED_HOSTS; pages of other origins can not ask',
  },
  not_found: {
    status: 404,
    retry: 'never',
    summary: 'Nothing is served at this address',
    remedy: 'Look the address up in /openapi.json',
  },
  method_not_allowed: {
    status: 405,
    retry: 'never',
    summary: 'The address does not take this method',
    remedy: 'Use a method that the header Allow names',
  },
  request_timeout: {
    status: 408,
    retry: 'never',
    summary: 'The body of the request came too slowly',
    remedy: 'Send the body without pauses',
  },
  upgrade_required: {
    status: 426,
    retry: 'never',
    summary: 'The address is served as a WebSocket only',
    remedy: 'Open a WebSocket at this address, or use the operations over plain HTTP',
  },
  body_too_large: {
    status: 413,
    retry: 'never',
    summary: 'The body is larger than the limit',
    remedy: 'Send less, or a file by an operation that takes uploads',
  },
  unsupported_media_type: {
    status: 415,
    retry: 'never',
    summary: 'The content type is not what the operation takes',
    remedy: 'Send `Content-Type: application/json`, or an upload as `application/octet-stream`',
  },
  sandbox_not_found: {
    status: 404,
    retry: 'never',
    summary: 'No sandbox has this id',
    remedy: 'List what there is: `squash ls`',
  },
  approval_not_found: {
    status: 404,
    retry: 'never',
    summary: 'No approval has this id',
    remedy: 'List what there is: `squash approvals ls`',
  },
  approval_expired: {
    status: 409,
    retry: 'never',
    summary: 'Nobody waits for this decision any more',
    remedy: 'A new try of the program asks again; `squash policy allow` lets it through without',
  },
  approval_decided: {
    status: 409,
    retry: 'never',
    summary: 'It has been decided otherwise',
    remedy: 'Change what holds from now on: `squash policy allow`, `squash policy deny`',
  },
  sandbox_exists: {
    status: 400,
    nativeStatus: 409,
    retry: 'never',
    summary: 'A sandbox with this id exists',
    remedy: 'Choose another id, or leave it out where the daemon makes one',
  },
  sandbox_limit: {
    status: 400,
    nativeStatus: 503,
    retry: 'later',
    summary: 'The daemon holds its maximum number of sandboxes',
    remedy: 'Destroy a sandbox, or raise SQUASH_MAX_SANDBOXES',
  },
  ceiling_exceeded: {
    status: 400,
    nativeStatus: 403,
    retry: 'never',
    summary: 'The request asks for more than the operator lets one sandbox have',
    remedy: 'Ask for less, or have the operator raise the setting that `detail` names',
  },
  host_full: {
    status: 503,
    retry: 'later',
    summary: 'The host has no room for another sandbox',
    remedy: 'Destroy sandboxes, or try again when others have ended',
  },
  sandbox_not_ready: {
    status: 400,
    nativeStatus: 409,
    retry: 'later',
    summary: 'The sandbox is not running',
    remedy: 'Wait until it runs; if it has failed, `squash info` says why',
  },
  sandbox_paused: {
    status: 400,
    nativeStatus: 409,
    retry: 'after-change',
    summary: 'The sandbox was paused or stopped by request',
    remedy: 'Resume it',
  },
  sandbox_busy: {
    status: 503,
    retry: 'later',
    summary: 'Too many operations wait for this sandbox',
    remedy: 'Try again when what it does now is done',
  },
  quota_exceeded: {
    status: 429,
    retry: 'later',
    summary: 'The owner has as much as its quota allows',
    remedy: 'End or remove something of this owner, or have the operator raise the quota: `squash quota set`',
  },
  exec_limit: {
    status: 429,
    retry: 'later',
    summary: 'The sandbox runs its maximum number of commands',
    remedy: 'Wait for a command to end, or end one',
  },
  stream_limit: {
    status: 429,
    retry: 'later',
    summary: 'The daemon holds its maximum number of open streams',
    remedy: 'Close a stream, or try again later',
  },
  connection_limit: {
    status: 503,
    retry: 'later',
    summary: 'Too many connections have sent no request yet',
    remedy: 'Send the request at once, or use fewer connections',
  },
  ...processErrors,
  ...contextErrors,
  wait_timeout: {
    status: 504,
    retry: 'later',
    summary: 'What was waited for has not happened in the given time',
    remedy: 'Wait again, or longer: `timeout_ms`',
  },
  idempotency_mismatch: {
    status: 422,
    retry: 'never',
    summary: 'The Idempotency-Key was sent before with another request',
    remedy: 'Send a new key with a new request',
  },
  job_not_found: {
    status: 404,
    retry: 'never',
    summary: 'The sandbox has no job with this number',
    remedy: 'List what there is: `squash jobs`',
  },
  ...moduleErrors,
  ...imageErrors,
  ...volumeErrors,
  ...groupErrors,
  ...hostRootErrors,
  ...vmErrors,
  layer_corrupt: {
    status: 500,
    retry: 'after-change',
    summary: 'A layer does not match its digest or is no readable squashfs',
    remedy: 'Import or build the layer again: `squash doctor` names it',
  },
  snapshot_not_found: {
    status: 400,
    nativeStatus: 404,
    retry: 'never',
    summary: 'The sandbox has no snapshot with this label',
    remedy: 'List what there is: `squash snapshots ls`',
  },
  snapshot_exists: {
    status: 400,
    nativeStatus: 409,
    retry: 'never',
    summary: 'The sandbox has a snapshot with this label',
    remedy: 'Choose another label, or remove the snapshot first',
  },
  snapshot_invalid: {
    status: 422,
    retry: 'never',
    summary: 'The file is no readable squashfs',
    remedy: 'Send a whole squashfs file made by mksquashfs',
  },
  snapshot_path_too_long: {
    status: 400,
    nativeStatus: 409,
    retry: 'after-change',
    summary: 'The sandbox holds a path longer than a snapshot can',
    remedy: 'Move or remove the path that `detail` names',
  },
  webhook_not_found: {
    status: 404,
    retry: 'never',
    summary: 'No webhook has this id',
    remedy: 'List what there is: `squash webhook ls`',
  },
  webhook_limit: {
    status: 429,
    retry: 'after-change',
    summary: 'The daemon holds its maximum number of webhooks',
    remedy: 'Remove a webhook that nobody needs',
  },
  webhook_address_refused: {
    status: 400,
    nativeStatus: 403,
    retry: 'never',
    summary: 'The webhook leads to an address that is not public',
    remedy: 'Name a public address, or have the operator put the range into SQUASH_WEBHOOK_RANGES',
  },
  limits_unenforceable: {
    status: 400,
    retry: 'after-change',
    summary: 'The host can not enforce a limit and the configuration requires it',
    remedy: 'Ask for less, or mend what `squash doctor` names',
  },
  limit_below_use: {
    status: 409,
    retry: 'after-change',
    summary: 'The sandbox uses more than the new limit',
    remedy: 'End what uses it first, or ask for more',
  },
  unsupported_feature: {
    status: 400,
    retry: 'never',
    summary: 'The request names a part that does not exist yet',
    remedy: 'Leave the field out',
  },
  not_offered: {
    status: 501,
    retry: 'never',
    summary: 'The address belongs to a part of the original that this Squash does not have',
    remedy: 'Do what `detail` says instead',
  },
  disk_full: {
    status: 507,
    retry: 'after-change',
    summary: 'The data directory has no room',
    remedy: 'Make room on the file system of SQUASH_DATA',
  },
  guest_failed: {
    status: 502,
    retry: 'later',
    summary: 'PID 1 of the sandbox does not answer or breaks the protocol',
    remedy: 'Try again; if it stays so, destroy the sandbox or restore a snapshot',
  },
  ...fileErrorCatalog,
  ...portErrors,
  launch_failed: {
    status: 500,
    retry: 'later',
    summary: 'The sandbox could not be started',
    remedy: 'Try again; the daemon’s log and `squash doctor` say why',
  },
  launcher_unavailable: {
    status: 503,
    retry: 'later',
    summary: 'squash-launch does not answer',
    remedy: 'Try again in a moment; if it stays so, `squash doctor` says why',
  },
  bucket_unavailable: {
    status: 503,
    retry: 'later',
    summary: 'The bucket does not answer, and what is asked for is only there, or has to go there first',
    remedy: 'Try again; `squash doctor` says what the bucket answered',
  },
  bucket_not_set: {
    status: 404,
    retry: 'never',
    summary: 'The daemon has no bucket',
    remedy: 'Set SQUASH_S3_BUCKET and start the daemon again',
  },
  bucket_conflict: {
    status: 409,
    retry: 'never',
    summary: 'The bucket has something else under this name, or another owner’s',
    remedy: 'Take another name; or push it with `--replace`, which overwrites what is there',
  },
  egress_unavailable: {
    status: 503,
    retry: 'later',
    summary: 'The egress process does not answer',
    remedy: 'Try again in a moment; if it stays so, `squash doctor` says why',
  },
  secret_not_found: {
    status: 404,
    retry: 'never',
    summary: 'No secret has this name',
    remedy: 'List what there is: `squash secret ls`',
  },
  key_not_found: {
    status: 404,
    retry: 'never',
    summary: 'No key has this id',
    remedy: 'List what there is: `squash keys ls`',
  },
  ssh_key_exists: {
    status: 409,
    retry: 'never',
    summary: 'This public key is registered already',
    remedy: 'Remove the one that is there first: `squash ssh-key ls` shows its id',
  },
  ssh_login_refused: {
    status: 403,
    retry: 'never',
    summary: 'Nobody logs in over SSH with this key and this signature',
    remedy: 'Register the public key: `squash ssh-key add`; a session is good for one login',
  },
  key_limit: {
    status: 409,
    retry: 'after-change',
    summary: 'The daemon holds its maximum number of keys',
    remedy: 'Remove keys that nobody uses: `squash keys ls` says when each was used',
  },
  secrets_invalid: {
    status: 409,
    retry: 'after-change',
    summary: 'secrets.json can not be read or is malformed',
    remedy: 'Mend secrets.json: `detail` says where',
  },
  shutting_down: {
    status: 503,
    retry: 'later',
    summary: 'The daemon is stopping',
    remedy: 'Try again when the daemon is back',
  },
  config_invalid: {
    status: 500,
    retry: 'after-change',
    summary: 'The configuration is malformed',
    remedy: 'Mend the setting that `detail` names',
  },
  database_corrupt: {
    status: 500,
    retry: 'after-change',
    summary: 'The state database can not be read',
    remedy: 'Run `squash doctor --repair`',
  },
  database_missing: {
    status: 500,
    retry: 'after-change',
    summary: 'Sandboxes lie on the disk and the state database is missing or was never used',
    remedy: 'Put the state database back, or run `squash doctor --repair`',
  },
  database_newer: {
    status: 500,
    retry: 'after-change',
    summary: 'The state database was written by a later Squash',
    remedy: 'Start the later Squash',
  },
  database_unavailable: {
    status: 500,
    retry: 'after-change',
    summary: 'The file system refuses to read or write the state database',
    remedy: 'Mend the file system of SQUASH_DATA',
  },
  data_locked: {
    status: 500,
    retry: 'after-change',
    summary: 'Another daemon uses this data directory',
    remedy: 'Stop the other daemon, or use another SQUASH_DATA',
  },
  internal: {
    status: 500,
    retry: 'never',
    summary: 'A fault in Squash itself',
    remedy: 'Look into the daemon’s log and report it',
  },
} as const satisfies Record<string, ErrorRow>;

interface ErrorRow {
  readonly status: number;
  readonly nativeStatus?: number;
  readonly retry: 'never' | 'later' | 'after-change';
  readonly summary: string;
  /** What the caller can do about it, where the message does not say it better. */
  readonly remedy: string;
}

export type ErrorCode = keyof typeof errorCatalog;

/** Which of the two spellings of the API an address belongs to. */
export type Dialect = 'seed' | 'native';

export function errorStatus(code: ErrorCode, dialect: Dialect): number {
  const row = errorCatalog[code];
  return dialect === 'native' && 'nativeStatus' in row ? row.nativeStatus : row.status;
}

/**
 * Every expected failure. `message` says what failed, with quoted values, the state and the remedy; it
 * reaches clients, so it never holds a secret or a host path that a sandbox chose.
 */
export class AppError extends Error {
  readonly code: ErrorCode;
  /** The name that the error is about (module, label, number), where the request does not tell: `seedSentence` uses it. */
  readonly subject: string | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options?: { readonly cause?: unknown; readonly subject?: string },
  ) {
    super(message, options);
    this.name = 'AppError';
    this.code = code;
    this.subject = options?.subject;
  }

  get status(): number {
    return errorCatalog[this.code].status;
  }
}
