/** Users by name, as the sandbox's `/etc/passwd` has them: a program in there may have written anything into it. */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { GuestFileSystem } from '../guest/guest.ts';
import type { NamedUser } from '../sandbox/user-names.ts';
import { errnoOf } from './file-errors.ts';

export const passwd = '/etc/passwd';
/** Of what a sandbox has. */
const idMax = 65_535;
/** Of a line: a path may have 4,095 bytes. */
const lineMax = 5_000;

/** The first of this name, as libc finds it. @throws user_not_found, guest_failed */
export async function findUser(files: GuestFileSystem, name: string): Promise<NamedUser> {
  const text = await readUsers(files);
  // Searched, not taken apart: a megabyte of empty lines would be a million texts.
  const at = text.indexOf(`\n${name}:`) + 1;
  const [, , uid, gid, , home = ''] =
    at === 0 ? [] : (text.slice(at, at + lineMax).split('\n', 1)[0] ?? '').split(':', 7);
  if ([uid, gid].every((each = '') => /^\d{1,5}$/.test(each) && Number(each) <= idMax))
    return { uid: Number(uid), gid: Number(gid), home: /^\/[^\0]*$/.test(home) ? home : '/' };
  throw new AppError('user_not_found', `Cannot find user "${name}" in /etc/passwd of the sandbox`);
}

async function readUsers(files: GuestFileSystem): Promise<string> {
  const parts: Buffer[] = [];
  try {
    for await (const part of files.read(passwd, { offset: 0, length: limits.passwdBytesMax }))
      parts.push(part);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === undefined || !(error instanceof AppError)) throw error;
    // A file that is not there has no names. Any other fault of it is not to be mistaken for that.
    if (errno !== 'ENOENT')
      throw new AppError('user_not_found', `Cannot look users up: ${error.message}`, { cause: error });
  }
  return `\n${Buffer.concat(parts).toString()}`;
}
