/**
 * What OpenSSH's client is told so that `ID.squash` is a sandbox: a program instead of a connection, and the key by which it knows us
 * again. The key is made once for each user; nobody could come between on a pipe, but a client asks about keys it does not know.
 */
import { mkdirSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { CliFailure, errorCode, fileProblem } from './failure.ts';

export const hostSuffix = '.squash';
/** The one name under which our key stands in `known_hosts`, whatever the sandbox is called. */
const keyAlias = 'squash-sandboxes';

interface Identity {
  readonly hostKey: string;
  readonly knownHosts: string;
}

/** Made at its first use. */
export async function identity(): Promise<Identity> {
  const { hostKeyAt } = await import('@squash/ssh/host-key');
  const config = process.env['XDG_CONFIG_HOME'] || join(userInfo().homedir, '.config');
  const directory = join(config, 'squash', 'ssh');
  try {
    const key = hostKeyAt(join(directory, 'host_key'));
    const knownHosts = join(directory, 'known_hosts');
    replaceFile(knownHosts, `${keyAlias} ${key.public}\n`);
    return { hostKey: key.private, knownHosts };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CliFailure('ssh_key_failed', `the key of SSH below "${directory}" can't be had: ${why}`);
  }
}

/** Options of `ssh` for one sandbox. */
export function sshOptions(
  proxy: readonly string[],
  sandbox: string,
  { knownHosts }: Identity,
): readonly string[] {
  return [`ProxyCommand=${proxyCommand(proxy, sandbox)}`, ...fixed(knownHosts).map((pair) => pair.join('='))];
}

/** The lines of a configuration file for all of them. */
export function configLines(proxy: readonly string[], { knownHosts }: Identity): readonly string[] {
  const lines = [
    ['User', 'root'],
    // The name as it was typed: ssh makes others lower case. Quoted, because the name may come from the address of a repository, and
    // a client from before the end of 2023 hands anything in it to the shell.
    ['ProxyCommand', proxyCommand(proxy, "'%n'")],
    ...fixed(knownHosts),
  ];
  return [`Host *${hostSuffix}`, ...lines.map(([name, value]) => `  ${name} ${value}`)];
}

const fixed = (knownHosts: string): readonly (readonly [string, string])[] => [
  ['HostKeyAlias', keyAlias],
  ['UserKnownHostsFile', `"${knownHosts.replaceAll('%', '%%')}"`],
  ['GlobalKnownHostsFile', '/dev/null'],
  ['StrictHostKeyChecking', 'yes'],
  ['UpdateHostKeys', 'no'],
];

/** As the shell reads it, with the percent signs that ssh would take for its own doubled. */
function proxyCommand(program: readonly string[], sandbox: string): string {
  const words = [...program, 'ssh', '--stdio'].map(quoted).join(' ').replaceAll('%', '%%');
  return `${words} ${sandbox}`;
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

const begin = '# squash ssh --write: begin';
const end = '# squash ssh --write: end';

/** At the file's head, where no `Host *` of the user's comes before; older ones of ours go. */
export function writeConfig(file: string, lines: readonly string[]): void {
  try {
    const before = existing(file);
    const [head = '', ...tail] = before.split(`${begin}\n`);
    const rest =
      tail.length === 0 ? before : head + (tail.join('').split(`${end}\n`)[1] ?? '').replace(/^\n/, '');
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    replaceFile(file, `${begin}\n${lines.join('\n')}\n${end}\n${rest === '' ? '' : '\n'}${rest}`);
  } catch (cause) {
    throw new CliFailure('file_failed', `"${file}" can't be written: ${fileProblem(cause, true)}`);
  }
}

function existing(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return '';
    throw cause;
  }
}

/** Whole or not at all, with its mode, and behind a link where the user keeps his configuration elsewhere. */
function replaceFile(file: string, text: string): void {
  let path = file;
  let mode = 0o600;
  try {
    path = realpathSync(file);
    mode = statSync(path).mode & 0o777;
    if (readFileSync(path, 'utf8') === text) return;
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') throw cause;
  }
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, text, { mode });
    renameSync(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
}
