/**
 * Where the daemon is for a program that names none: the environment, else the Unix socket of the data directory, else the loopback
 * port. These are the rules of the command line (`cli/src/client/address.ts`), so that a program finds the daemon that `squash` finds.
 */
import {
  apiPortDefault,
  apiSocketPath,
  dataDirectory,
  socketPathBytesMax,
} from '@squash/contract/data-directory';
import { type Address, parseAddress } from './address.ts';
import { badRequest } from './errors.ts';
import type { NodeParts } from './node-parts.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Without Node's modules (a browser) the page's own host is asked. */
export function findDaemon(node: NodeParts | undefined): Address {
  if (node === undefined) return parseAddress('/', 'the page');
  const { env } = node;
  if (env['SQUASH_SOCKET']) return { kind: 'unix', path: node.path.resolve(env['SQUASH_SOCKET']) };
  if (env['SQUASH_API']) return parseAddress(env['SQUASH_API'], 'SQUASH_API');
  const places = withDotEnv(node, env);
  const path = socketPath(node, places);
  if (node.fs.existsSync(path)) return { kind: 'unix', path };
  const port = places['SQUASH_PORT'];
  // `0` and `off` name no port; the socket is then the only way, and the message names it.
  if (port === 'off' || port === '0') return { kind: 'unix', path };
  if (port && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535))
    throw badRequest(`SQUASH_PORT is "${port}": a port is a number from 1 to 65535, or off`);
  return { kind: 'tcp', base: `http://127.0.0.1:${port || apiPortDefault}` };
}

/**
 * The daemon reads `.env` in its working directory, so a program there must find the same places. Only places are taken from it:
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

function socketPath(node: NodeParts, env: Environment): string {
  const run = env['SQUASH_RUN'];
  const name = apiSocketPath.slice(apiSocketPath.lastIndexOf('/') + 1);
  if (run) return node.path.resolve(run, name);
  const { uid, home } = node;
  const found = dataDirectory({
    env,
    uid,
    home,
    isWritableDirectory: (path) => isWritableDirectory(node, path),
  });
  return `${node.path.resolve(found.path)}/${apiSocketPath}`;
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
