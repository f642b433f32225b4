/** Users by name in what is to be run. */
import type { ExecStart } from '@squash/contract/exec';

export interface NamedUser {
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

/** Asks the sandbox. @throws user_not_found, guest_failed, sandbox_busy */
export type FindUser = (name: string) => Promise<NamedUser>;

/** What is to be run, with its user as numbers and with what a login would tell it of himself. @throws as `FindUser` */
export async function asNumbers<T extends Pick<ExecStart, 'user' | 'env'>>(
  start: T,
  findUser: FindUser,
): Promise<T> {
  if (typeof start.user !== 'string') return start;
  const { uid, gid, home } = await findUser(start.user);
  const own = { HOME: home, USER: start.user, LOGNAME: start.user };
  return { ...start, user: { uid, gid }, env: { ...own, ...start.env } };
}
