/** What stands behind a refused file operation, as a code that a client can act on. */
import { AppError, type ErrorCode } from '@squash/contract/errors';
import { GuestErrno } from '../guest/guest-error.ts';

const codes: Readonly<Record<string, ErrorCode>> = {
  ENOENT: 'file_not_found',
  EEXIST: 'file_exists',
  ENOTEMPTY: 'directory_not_empty',
  ENOTDIR: 'not_a_directory',
  EISDIR: 'is_a_directory',
  EINVAL: 'not_a_file',
  ENXIO: 'not_a_file',
  EACCES: 'permission_denied',
  EPERM: 'permission_denied',
  EROFS: 'permission_denied',
  ENAMETOOLONG: 'path_invalid',
  ELOOP: 'path_invalid',
  EBUSY: 'file_busy',
  ETXTBSY: 'file_busy',
  ESTALE: 'file_busy',
  ENOSPC: 'sandbox_full',
  // Behind RLIMIT_FSIZE, by which one file at least is held to the limit where nothing but measuring holds it.
  EFBIG: 'sandbox_full',
  EDQUOT: 'sandbox_full',
};
/** Of an archive that is unpacked. */
export const archiveCodes: Readonly<Record<string, ErrorCode>> = {
  EBADMSG: 'archive_invalid',
  EFBIG: 'archive_invalid',
  EOPNOTSUPP: 'archive_invalid',
  EXDEV: 'archive_invalid',
};
/** Of a write with a condition. */
export const conditionCodes: Readonly<Record<string, ErrorCode>> = {
  EEXIST: 'precondition_failed',
  ESTALE: 'precondition_failed',
};

export const errnoOf = (error: unknown): string | undefined =>
  error instanceof AppError && error.cause instanceof GuestErrno ? error.cause.code : undefined;

/** How PID 1 refuses a frame or a field that its release has not. */
const isOfEarlierRelease = /: (?:type|a field has no business in this request)[:.]/;

/** @param own codes that mean something else to this operation */
export function fileError(error: unknown, own: Readonly<Record<string, ErrorCode>> = {}): unknown {
  const errno = errnoOf(error);
  if (error instanceof AppError && error.code === 'guest_failed' && isOfEarlierRelease.test(error.message)) {
    const remedy = 'it was started by an earlier release: pause it with `keep: "files"` and resume it';
    return new AppError('guest_failed', `PID 1 of the sandbox does not know the request: ${remedy}.`, {
      cause: error,
    });
  }
  if (!(error instanceof AppError) || errno === undefined) return error;
  // What PID 1 takes for malformed although it had a schema: a pattern or an expression that is none.
  if (error.code === 'guest_failed' && errno === 'EINVAL') {
    return new AppError('invalid_request', error.message, { cause: error });
  }
  const code = own[errno] ?? codes[errno];
  if (error.code !== 'file_failed' || code === undefined) return error;
  return new AppError(code, error.message, { cause: error });
}
