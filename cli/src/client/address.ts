/**
 * Where the daemon is: what the call names, else the environment, else the Unix socket of the data directory,
 * else the loopback port.
 *
 * A newcomer would forget that a socket's address holds 107 bytes only: longer paths are reached through a
 * descriptor of their directory.
 */
import { accessSync, closeSync, constants, existsSync, openSync, readFileSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { basename, dirname, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import {
  apiPortDefault,
  apiSocketPath,
  dataDirectory,
  socketPathBytesMax,
} from '@squash/contract/data-directory';
import { usageFailure } from '../failure.ts';

export type Address =
  | { readonly kind: 'unix'; readonly path: string }
  | {
      readonly kind: 'tcp';
      readonly tls: boolean;
      readonly host: string;
      readonly port: number;
      /** Path before the API's own, for a daemon behind a reverse proxy; without a slash at the end. */
      readonly prefix: string;
      /** Nobody named it: whichever daemon has the port answers, also one of another data directory or user. */
      readonly isGuess?: true;
    };

export interface AddressOptions {
  readonly url?: string | undefined;
  readonly socket?: string | undefined;
}

/** Variables that say where this machine's daemon is, and nothing else: see `withDotEnv`. */
const placeVariables = ['SQUASH_DATA', 'SQUASH_DATA_DIR', 'SQUASH_RUN', 'SQUASH_PORT'] as const;

/**
 * The daemon reads `.env` in its working directory, so the CLI called there must find the same places. Only
 * places are taken from it: a `.env` in a downloaded directory must not send our token to another host.
 */
function withDotEnv(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  let file: NodeJS.Dict<string>;
  try {
    // Another user's, in /tmp say, would lead our token to a socket of theirs.
    const { uid } = statSync('.env');
    if (uid !== 0 && uid !== process.geteuid?.()) return env;
    file = parseEnv(readFileSync('.env', 'utf8'));
  } catch {
    // None, or not readable: the daemon that could read it would be another user's.
    return env;
  }
  const places = placeVariables.map((name) => [name, env[name] ?? file[name]] as const);
  return { ...env, ...Object.fromEntries(places) };
}

/** The data directory as the daemon of the same user, environment and working directory takes it. */
export function localDataDirectory(environment: NodeJS.ProcessEnv = process.env): string {
  const env = withDotEnv(environment);
  const found = dataDirectory({
    env,
    uid: process.geteuid?.() ?? -1,
    home: homeDirectory(env),
    isWritableDirectory,
  });
  return resolve(found.path);
}

export function findDaemon(options: AddressOptions, env: NodeJS.ProcessEnv = process.env): Address {
  if (options.url !== undefined && options.socket !== undefined) {
    throw usageFailure('--url and --socket exclude each other');
  }
  if (options.url !== undefined) return parseAddress(options.url, '--url');
  if (options.socket !== undefined) return { kind: 'unix', path: resolve(options.socket) };
  if (env['SQUASH_SOCKET']) return { kind: 'unix', path: resolve(env['SQUASH_SOCKET']) };
  if (env['SQUASH_API']) return parseAddress(env['SQUASH_API'], 'SQUASH_API');
  const path = localSocketPath(env);
  if (existsSync(path)) return { kind: 'unix', path };
  const port = withDotEnv(env)['SQUASH_PORT'];
  // `0` and `off` name no port; the socket is then the only way, and the message names it.
  if (port === 'off' || port === '0') return { kind: 'unix', path };
  if (port && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535))
    throw usageFailure(`SQUASH_PORT is "${port}": a port is a number from 1 to 65535, or off`);
  const guess = parseAddress(`http://127.0.0.1:${port || apiPortDefault}`, 'SQUASH_PORT');
  return guess.kind === 'tcp' ? { ...guess, isGuess: true } : guess;
}

export function localSocketPath(env: NodeJS.ProcessEnv = process.env): string {
  const run = withDotEnv(env)['SQUASH_RUN'];
  return run ? resolve(run, basename(apiSocketPath)) : `${localDataDirectory(env)}/${apiSocketPath}`;
}

export function parseAddress(text: string, source: string): Address {
  if (text.startsWith('unix:')) return { kind: 'unix', path: resolve(text.replace(/^unix:(\/\/)?/, '')) };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:') || url.hostname === '') {
    throw usageFailure(`${source} is no http, https or unix address: "${text}"`);
  }
  if (url.username !== '' || url.search !== '' || url.hash !== '') {
    throw usageFailure(`${source} takes no user, query or fragment: use --token for the token`);
  }
  const tls = url.protocol === 'https:';
  return {
    kind: 'tcp',
    tls,
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? (tls ? 443 : 80) : Number(url.port),
    prefix: url.pathname.replace(/\/+$/, ''),
  };
}

/** For messages: what the reader could have typed. */
export function describeAddress(address: Address): string {
  if (address.kind === 'unix') return address.path;
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return `${address.tls ? 'https' : 'http'}://${host}:${address.port}${address.prefix}`;
}

/** A path that fits a socket's address, valid until `release`. */
export function reachableSocketPath(path: string): { readonly path: string; readonly release: () => void } {
  if (Buffer.byteLength(path) <= socketPathBytesMax) return { path, release: () => {} };
  const directory = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: `/proc/self/fd/${directory}/${basename(path)}`, release: () => closeSync(directory) };
}

function homeDirectory(env: NodeJS.ProcessEnv): string {
  try {
    return userInfo().homedir;
  } catch {
    // A container's user without a row in the password database has only the variable.
    return env['HOME'] ?? '/';
  }
}

function isWritableDirectory(path: string): boolean {
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    return statSync(path).isDirectory();
  } catch {
    // Missing, or not ours: both mean that the rule goes on to the next place.
    return false;
  }
}
