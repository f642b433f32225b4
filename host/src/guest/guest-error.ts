/**
 * An `error` frame of PID 1 as an `AppError`. The guest is hostile: its code is looked up, its errno is named here,
 * and of its message only short printable text is passed on.
 */
import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';
import { AppError, type ErrorCode } from '@squash/contract/errors';
import { type Field, type Frame, FrameError } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import { type GuestErrorCode, guestErrorCodes } from '@squash/contract/guest/frames';
import { breach } from './frame-connection.ts';

/** The `cause` of an `AppError` that an errno inside the sandbox stands behind. */
export class GuestErrno extends Error {
  /** `ENOENT` and its like; `errno 4095` for a number that has no name. */
  readonly code: string;
  /** What it befell, in PID 1's words: of a command's start `the program`, `the working directory`, `the user`. */
  readonly step: string;

  constructor(code: string, message: string, step: string) {
    super(message);
    this.name = 'GuestErrno';
    this.code = code;
    this.step = step;
  }
}

const appCodes: Readonly<Record<GuestErrorCode, ErrorCode>> = {
  bad_request: 'guest_failed',
  limit: 'exec_limit',
  exec_failed: 'exec_failed',
  exec_exists: 'exec_failed',
  exec_unknown: 'exec_failed',
  offset_gone: 'guest_failed',
  file_failed: 'file_failed',
  dial_failed: 'port_unreachable',
  vmm_failed: 'guest_failed',
};

const names = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]));
/** Those that libuv has no text for and a command can meet. */
const texts: Readonly<Record<string, string>> = {
  ENOEXEC: 'not a program this machine can run',
  ESTALE: 'stale file handle',
  EDQUOT: 'disk quota exceeded',
};

export function errnoText(errno: number): { readonly code: string; readonly text: string } {
  const code = names.get(errno) ?? `errno ${errno}`;
  return { code, text: texts[code] ?? getSystemErrorMap().get(-errno)?.[1] ?? code };
}

/**
 * What to throw for a frame that is not the wanted answer: an `error` says why, any other is a breach.
 * @param subject what was tried, as the sentence's start: `"/a" can't be read`
 */
export function refuse(frame: Frame, subject: string): AppError {
  if (frame.type !== 'error') return breach(`a "${frame.type}" frame does not answer the request`);
  try {
    return guestError(subject, frame.fields);
  } catch (error) {
    if (error instanceof FrameError) return breach(error.message, error);
    throw error;
  }
}

function guestError(subject: string, fields: readonly Field[]): AppError {
  const reader = new FieldReader(fields);
  const sent = reader.text('errorCode', 64);
  const errno = reader.integer('errno', { max: 4095 });
  const message = reader.text('message', 512);
  reader.done();
  const code = guestErrorCodes.find((known) => known === sent) ?? 'bad_request';
  const detail = /^[ -~]{1,200}$/.test(message) ? message : 'no detail';
  if (errno === 0) return new AppError(appCodes[code], `${subject}: ${detail}.`);
  const { code: errnoCode, text } = errnoText(errno);
  return new AppError(appCodes[code], `${subject}: ${detail}: ${text} (${errnoCode}).`, {
    cause: new GuestErrno(errnoCode, text, detail),
  });
}
