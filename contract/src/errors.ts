/**
 * The error catalogue: one row is the only place where a code's status and retry rule are written.
 *
 * `/cgi-bin` answers `{"error": <seed sentence>, "code": <code>}`, `/v1` answers RFC 9457 problem details
 * with the same code. Codes are never renamed. `status` is the original's, which says 400 to nearly everything;
 * where HTTP has a better word, `/v1` says `nativeStatus`.
 */
export const errorCatalog = {
  invalid_request: { status: 400, retry: 'never', summary: 'The request is malformed' },
  invalid_json: { status: 400, retry: 'never', summary: 'The body is not valid JSON' },
  unauthorized: { status: 401, retry: 'never', summary: 'The bearer token is missing or wrong' },
  token_required: {
    status: 401,
    retry: 'never',
    summary:
      'There is no token, and the connection is of another user than the daemon’s, or nobody knows whose',
  },
  origin_refused: {
    status: 403,
    retry: 'never',
    summary: 'The request comes from a foreign web page or names a foreign host',
  },
  not_found: { status: 404, retry: 'never', summary: 'Nothing is served at this address' },
  method_not_allowed: { status: 405, retry: 'never', summary: 'The address does not take this method' },
  request_timeout: { status: 408, retry: 'never', summary: 'The body of the request came too slowly' },
  upgrade_required: { status: 426, retry: 'never', summary: 'The address is served as a WebSocket only' },
  body_too_large: { status: 413, retry: 'never', summary: 'The body is larger than the limit' },
  unsupported_media_type: { status: 415, retry: 'never', summary: 'The content type is not JSON' },
  sandbox_not_found: { status: 404, retry: 'never', summary: 'No sandbox has this id' },
  sandbox_exists: {
    status: 400,
    nativeStatus: 409,
    retry: 'never',
    summary: 'A sandbox with this id exists',
  },
  sandbox_limit: {
    status: 400,
    nativeStatus: 503,
    retry: 'later',
    summary: 'The daemon holds its maximum number of sandboxes',
  },
  ceiling_exceeded: {
    status: 400,
    nativeStatus: 403,
    retry: 'never',
    summary: 'The request asks for more than the operator lets one sandbox have',
  },
  host_full: {
    status: 503,
    retry: 'later',
    summary: 'The host has no room for another sandbox',
  },
  sandbox_not_ready: {
    status: 400,
    nativeStatus: 409,
    retry: 'later',
    summary: 'The sandbox is not running',
  },
  sandbox_busy: { status: 503, retry: 'later', summary: 'Too many operations wait for this sandbox' },
  exec_limit: { status: 429, retry: 'later', summary: 'The sandbox runs its maximum number of commands' },
  stream_limit: {
    status: 429,
    retry: 'later',
    summary: 'The daemon holds its maximum number of open streams',
  },
  connection_limit: {
    status: 503,
    retry: 'later',
    summary: 'Too many connections have sent no request yet',
  },
  exec_failed: { status: 500, retry: 'never', summary: 'The command could not be started' },
  job_not_found: { status: 404, retry: 'never', summary: 'The sandbox has no job with this number' },
  module_not_found: {
    status: 400,
    nativeStatus: 404,
    retry: 'after-change',
    summary: 'No module has this name',
  },
  module_exists: {
    status: 400,
    nativeStatus: 409,
    retry: 'never',
    summary: 'A module with this name and other content exists',
  },
  module_invalid: { status: 422, retry: 'never', summary: 'The file is no readable squashfs' },
  module_in_use: { status: 409, retry: 'later', summary: 'A sandbox is built on this module' },
  module_active: {
    status: 400,
    nativeStatus: 409,
    retry: 'never',
    summary: 'The module is already part of the sandbox',
  },
  layer_corrupt: {
    status: 500,
    retry: 'after-change',
    summary: 'A layer does not match its digest or is no readable squashfs',
  },
  snapshot_not_found: {
    status: 400,
    nativeStatus: 404,
    retry: 'never',
    summary: 'The sandbox has no snapshot with this label',
  },
  snapshot_exists: {
    status: 400,
    nativeStatus: 409,
    retry: 'never',
    summary: 'The sandbox has a snapshot with this label',
  },
  snapshot_invalid: { status: 422, retry: 'never', summary: 'The file is no readable squashfs' },
  snapshot_path_too_long: {
    status: 400,
    nativeStatus: 409,
    retry: 'after-change',
    summary: 'The sandbox holds a path longer than a snapshot can',
  },
  limits_unenforceable: {
    status: 400,
    retry: 'after-change',
    summary: 'The host can not enforce a limit and the configuration requires it',
  },
  unsupported_feature: {
    status: 400,
    retry: 'never',
    summary: 'The request names a part that does not exist yet',
  },
  not_offered: {
    status: 501,
    retry: 'never',
    summary: 'The address belongs to a part of the original that this Squash does not have',
  },
  disk_full: { status: 507, retry: 'after-change', summary: 'The data directory has no room' },
  guest_failed: {
    status: 502,
    retry: 'later',
    summary: 'PID 1 of the sandbox does not answer or breaks the protocol',
  },
  file_failed: {
    status: 400,
    retry: 'after-change',
    summary: 'A file operation inside the sandbox was refused',
  },
  port_unreachable: { status: 502, retry: 'later', summary: 'Nothing answers on this port of the sandbox' },
  launch_failed: { status: 500, retry: 'later', summary: 'The sandbox could not be started' },
  launcher_unavailable: { status: 503, retry: 'later', summary: 'squash-launch does not answer' },
  egress_unavailable: { status: 503, retry: 'later', summary: 'The egress process does not answer' },
  secret_not_found: { status: 404, retry: 'never', summary: 'No secret has this name' },
  secrets_invalid: {
    status: 409,
    retry: 'after-change',
    summary: 'secrets.json can not be read or is malformed',
  },
  shutting_down: { status: 503, retry: 'later', summary: 'The daemon is stopping' },
  config_invalid: { status: 500, retry: 'after-change', summary: 'The configuration is malformed' },
  database_corrupt: { status: 500, retry: 'after-change', summary: 'The state database can not be read' },
  database_missing: {
    status: 500,
    retry: 'after-change',
    summary: 'Sandboxes lie on the disk and the state database is missing or was never used',
  },
  database_newer: {
    status: 500,
    retry: 'after-change',
    summary: 'The state database was written by a later Squash',
  },
  database_unavailable: {
    status: 500,
    retry: 'after-change',
    summary: 'The file system refuses to read or write the state database',
  },
  data_locked: { status: 500, retry: 'after-change', summary: 'Another daemon uses this data directory' },
  internal: { status: 500, retry: 'never', summary: 'A fault in Squash itself' },
} as const satisfies Record<
  string,
  {
    readonly status: number;
    readonly nativeStatus?: number;
    readonly retry: 'never' | 'later' | 'after-change';
    readonly summary: string;
  }
>;

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
