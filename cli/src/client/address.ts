/**
 * Where the daemon is: what the call names, else the environment, else this machine's, which the SDK finds.
 */
import { resolve } from 'node:path';
import { SquashError } from '@squash/sdk/errors';
import * as local from '@squash/sdk/local-daemon';
import { type NodeParts, nodeParts } from '@squash/sdk/node-parts';
import { Failure, usageFailure } from '../failure.ts';

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

export function findDaemon(options: AddressOptions, env: NodeJS.ProcessEnv = process.env): Address {
  if (options.url !== undefined && options.socket !== undefined) {
    throw usageFailure('--url and --socket exclude each other');
  }
  if (options.url !== undefined) return parseAddress(options.url, '--url');
  if (options.socket !== undefined) return { kind: 'unix', path: resolve(options.socket) };
  if (env['SQUASH_SOCKET']) return { kind: 'unix', path: resolve(env['SQUASH_SOCKET']) };
  if (env['SQUASH_API']) return parseAddress(env['SQUASH_API'], 'SQUASH_API');
  const found = localDaemon(env);
  if (found.kind === 'unix') return found;
  return { kind: 'tcp', tls: false, host: '127.0.0.1', port: found.port, prefix: '', isGuess: true };
}

function localDaemon(env: NodeJS.ProcessEnv): local.LocalDaemon {
  try {
    return local.localDaemon(node(), env);
  } catch (cause) {
    if (cause instanceof SquashError) throw usageFailure(cause.message);
    throw cause;
  }
}

export function localDataDirectory(env: NodeJS.ProcessEnv = process.env): string {
  return local.localDataDirectory(node(), env);
}

export function localSocketPath(env: NodeJS.ProcessEnv = process.env): string {
  return local.localSocketPath(node(), env);
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
  return local.reachableSocketPath(node(), path);
}

function node(): NodeParts {
  const parts = nodeParts();
  if (parts === undefined) throw new Failure('no_node', 'this Node lends no modules of its own');
  return parts;
}
