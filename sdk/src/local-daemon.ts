/**
 * Where this machine's daemon is for a program that names none: the Unix socket of the data directory, else the loopback port. SDK and
 * command line find the same one by this.
 *
 * A newcomer would forget that a socket's address holds 107 bytes only: longer paths are reached through a descriptor of their
 * directory.
 */
import {
  apiPortDefault,
  apiSocketPath,
  dataDirectory,
  socketPathBytesMax,
} from '@squash/contract/data-directory';
import { badRequest } from './errors.ts';
import type { Environment, NodeParts } from './node-parts.ts';

export type LocalDaemon =
  | { readonly kind: 'unix'; readonly path: string }
  /** On loopback. Nobody named it: whichever daemon has the port answers, also one of another data directory or user. */
  | { readonly kind: 'port'; readonly port: number };

/** @throws BadRequest where SQUASH_PORT is no port */
export function localDaemon(node: NodeParts, environment: Environment = node.env): LocalDaemon {
  const env = withDotEnv(node, environment);
  const path = localSocketPath(node, env);
  if (node.fs.existsSync(path)) return { kind: 'unix', path };
  const port = env['SQUASH_PORT'];
  // `0` and `off` name no port; the socket is then the only way, and the message names it.
  if (port === 'off' || port === '0') return { kind: 'unix', path };
  if (port && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535))
    throw badRequest(`SQUASH_PORT is "${port}": a port is a number from 1 to 65535, or off`);
  return { kind: 'port', port: Number(port || apiPortDefault) };
}

export function localSocketPath(node: NodeParts, environment: Environment = node.env): string {
  const run = withDotEnv(node, environment)['SQUASH_RUN'];
  if (run) return node.path.resolve(run, node.path.basename(apiSocketPath));
  return `${localDataDirectory(node, environment)}/${apiSocketPath}`;
}

/** The data directory as the daemon of the same user, environment and working directory takes it. */
export function localDataDirectory(node: NodeParts, environment: Environment = node.env): string {
  const env = withDotEnv(node, environment);
  const isWritable = (path: string): boolean => isWritableDirectory(node, path);
  const found = dataDirectory({ env, uid: node.uid, home: node.home, isWritableDirectory: isWritable });
  return node.path.resolve(found.path);
}

/**
 * The daemon reads `.env` in its working directory, so a program that is called there must find the same places. Only places are taken from it:
 * a `.env` in a downloaded directory must not send our token to another host.
 */
function withDotEnv({ fs, parseEnv, uid }: NodeParts, env: Environment): Environment {
  let file: Environment;
  try {
    // Another user's, in /tmp say, would lead our token to a socket of theirs.
    const owner = fs.statSync('.env').uid;
    if (owner !== 0 && owner !== uid) return env;
    file = parseEnv(fs.readFileSync('.env', 'utf8'));
  } catch {
    // None, or not readable: the daemon that could read it would be another user's.
    return env;
  }
  const names = ['SQUASH_DATA', 'SQUASH_DATA_DIR', 'SQUASH_RUN', 'SQUASH_PORT'];
  return { ...env, ...Object.fromEntries(names.map((name) => [name, env[name] ?? file[name]])) };
}

function isWritableDirectory({ fs }: NodeParts, path: string): boolean {
  try {
    fs.accessSync(path, fs.constants.W_OK | fs.constants.X_OK);
    return fs.statSync(path).isDirectory();
  } catch {
    // Missing, or not ours: both mean that the rule goes on to the next place.
    return false;
  }
}

/** A path that fits a socket's address, valid until `release`: longer ones are reached through a descriptor of their directory. */
export function reachableSocketPath(
  { fs, path: paths }: NodeParts,
  path: string,
): { readonly path: string; readonly release: () => void } {
  if (new TextEncoder().encode(path).length <= socketPathBytesMax) return { path, release: () => {} };
  const directory = fs.openSync(paths.dirname(path), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  return {
    path: `/proc/self/fd/${directory}/${paths.basename(path)}`,
    release: () => fs.closeSync(directory),
  };
}
