/**
 * What a command sees as its environment: built from nothing. Not one variable comes from the daemon, whose own
 * environment holds the API token.
 */
import type { ExecStart } from '@squash/contract/exec';
import type { SandboxId } from '@squash/contract/ids';
import { bug } from '@squash/base/bug';
import { limits } from '@squash/contract/limits';

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
  /** What the sandbox was given for all its commands. */
  readonly own: Environment;
}

export function baseEnvironment({ id, network, own }: Surroundings): Environment {
  return { ...network, PATH: searchPath, HOME: '/root', LANG: 'C.UTF-8', HOSTNAME: hostnameOf(id), ...own };
}

/** The client's own variables win: they concern its own command only. */
export function streamEnvironment(
  start: Pick<ExecStart, 'user' | 'tty' | 'env'>,
  surroundings: Surroundings,
): Environment {
  const { uid } = userOf(start);
  return {
    ...baseEnvironment(surroundings),
    ...(uid === 0 || Object.hasOwn(surroundings.own, 'HOME') ? {} : { HOME: '/' }),
    ...(start.tty === undefined ? {} : { TERM: start.tty.term }),
    ...start.env,
  };
}

export function userOf(start: Pick<ExecStart, 'user'>): { readonly uid: number; readonly gid: number } {
  bug(typeof start.user !== 'string', 'a name was not looked up');
  if (start.user === undefined) return { uid: 0, gid: 0 };
  return typeof start.user === 'number' ? { uid: start.user, gid: start.user } : start.user;
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
