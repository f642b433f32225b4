/** Users by name, as the sandbox's `/etc/passwd` has them: a program in there may have written anything into it. */
import { AppError } from '@squash/contract/errors';
import type { ExecStart } from '@squash/contract/exec';
import { limits } from '@squash/contract/limits';
import type { GuestFileSystem } from '../guest/guest.ts';
import type { Sandbox } from './sandbox.ts';

/** Of what a sandbox has. */
const idMax = 65_535;
/** Of a line: a path may have 4,095 bytes. */
const lineMax = 5_000;

export interface NamedUser {
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

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

/** What is to be run, with its user as numbers and with what a login would tell it of himself. @throws as `findUser` */
export async function asNumbers<T extends Pick<ExecStart, 'user' | 'env'>>(
  sandbox: Sandbox,
  start: T,
): Promise<T> {
  if (typeof start.user !== 'string') return start;
  await sandbox.ready();
  const { uid, gid, home } = await findUser(sandbox.guest.files, start.user);
  const own = { HOME: home, USER: start.user, LOGNAME: start.user };
  return { ...start, user: { uid, gid }, env: { ...own, ...start.env } };
}

async function readUsers(files: GuestFileSystem): Promise<string> {
  const parts: Buffer[] = [];
  try {
    for await (const part of files.read('/etc/passwd', { offset: 0, length: limits.passwdBytesMax }))
      parts.push(part);
  } catch (error) {
    // One without the file has no names.
    if (!(error instanceof AppError && error.code === 'file_failed')) throw error;
  }
  return `\n${Buffer.concat(parts).toString()}`;
}
