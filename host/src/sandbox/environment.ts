/**
 * What a command sees as its environment: built from nothing. Not one variable comes from the daemon, whose own
 * environment holds the API token.
 */
import type { ExecStart } from '@squash/contract/exec';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { bug } from '@squash/base/bug';
import { limits } from '@squash/contract/limits';
import type { CommandDefaults } from './host-root.ts';

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

type Environment = Readonly<Record<string, string>>;

/** The host name inside; `_` may stand in an id but not in a host name. */
export function hostnameOf(id: SandboxId): string {
  return id.replaceAll('_', '-');
}

export interface Surroundings {
  readonly id: SandboxId;
  /** What the network adds; a secret that is called PATH changes nothing. */
  readonly network: Environment;
  /** What its image says, or the host of its user, if it has either. */
  readonly image: CommandDefaults | null;
  /** What the sandbox was given for all its commands. */
  readonly own: Environment;
}

export function baseEnvironment({ id, network, image, own }: Surroundings): Environment {
  const { env = {}, home = null } = image ?? {};
  return {
    ...env,
    // An empty key in an image hides no secret.
    ...network,
    PATH: env['PATH'] ?? searchPath,
    HOME: env['HOME'] ?? home ?? '/root',
    LANG: env['LANG'] ?? 'C.UTF-8',
    HOSTNAME: env['HOSTNAME'] ?? hostnameOf(id),
    ...own,
  };
}

/** The client's own variables win: they concern its own command only. */
export function streamEnvironment(
  start: Pick<ExecStart, 'user' | 'tty' | 'env'>,
  surroundings: Surroundings,
): Environment {
  const { uid } = userOf(start, surroundings.image);
  const { own, image } = surroundings;
  const isImages = start.user === undefined && image !== null;
  const hasHome = isImages || Object.hasOwn(own, 'HOME');
  return {
    ...baseEnvironment(surroundings),
    ...(hasHome ? {} : { HOME: uid === 0 ? '/root' : '/' }),
    ...(start.tty === undefined ? {} : { TERM: start.tty.term }),
    ...start.env,
  };
}

export function userOf(
  start: Pick<ExecStart, 'user'>,
  image: CommandDefaults | null,
): { readonly uid: number; readonly gid: number } {
  bug(typeof start.user !== 'string', 'a name was not looked up');
  if (start.user === undefined) return imageUser(image);
  return typeof start.user === 'number' ? { uid: start.user, gid: start.user } : start.user;
}

/** Root where there is no image. @throws user_not_found where it names somebody who is in none of its files */
export function imageUser(image: CommandDefaults | null): { readonly uid: number; readonly gid: number } {
  if (image === null) return { uid: 0, gid: 0 };
  const { uid, gid, user, name } = image;
  if (uid !== null) return { uid, gid: gid ?? 0 };
  throw new AppError(
    'user_not_found',
    `Image "${name}" has its commands run as "${user}", whom its /etc/passwd does not have: name a user`,
  );
}

/** Where a command starts that says nothing of it. */
export function workdirOf(asked: string | undefined, image: CommandDefaults | null): string {
  return asked ?? image?.workdir ?? '/';
}

/** An argument vector as a shell line, for the log; cut to the length a shell line may have. */
export function commandLine(argv: readonly string[]): string {
  let line = '';
  for (const arg of argv) {
    const quoted = /^[A-Za-z0-9_@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", `'\\''`)}'`;
    line += line === '' ? quoted : ` ${quoted}`;
    if (line.length > limits.cmdBytesMax) return line.slice(0, limits.cmdBytesMax);
  }
  return line;
}
