/**
 * The one rule about where the daemon may listen: off loopback only with a token, because whoever can create a
 * sandbox can use this machine's processor, memory and disk.
 */
import { isIPv4 } from 'node:net';
import type { Capability } from '@squash/contract/capability';
import { keyTokenPattern } from '@squash/contract/key-token';
import type { Config } from './config.ts';

export function isLoopback(host: string): boolean {
  if (isIPv4(host)) return host.startsWith('127.');
  return host === '::1' || host.toLowerCase() === 'localhost';
}

/** Shorter ones can be guessed by whoever may ask often: `openssl rand -hex 8` gives as many. */
const tokenCharsFew = 16;

/** For `squash doctor` and the log; empty where the token is long enough, or there is none. */
export function weakToken({ authToken }: Pick<Config, 'authToken'>): readonly Capability[] {
  const length = authToken?.reveal().length ?? tokenCharsFew;
  if (length >= tokenCharsFew) return [];
  return [
    {
      name: 'token',
      state: 'weaker',
      required: false,
      found: `SQUASH_AUTH_TOKEN has ${length} characters`,
      choice: 'taken as it is',
      weaker: `fewer than ${tokenCharsFew} can be guessed by whoever reaches the port`,
      remedy: 'set a longer one: openssl rand -hex 32',
    },
  ];
}

/** One variable is the client's key and the daemon's token: whoever has set it as a client must not make that key the operator. */
export function tokenProblem({ authToken }: Pick<Config, 'authToken'>): string | undefined {
  if (authToken === undefined || !keyTokenPattern.test(authToken.reveal())) return undefined;
  return 'SQUASH_AUTH_TOKEN is an API key, which is for clients: set another one for the daemon (openssl rand -hex 32), or none';
}

/** What is wrong with where this configuration listens; undefined where nothing is. */
export function listenProblem(
  config: Pick<Config, 'listen' | 'authToken' | 'previewDomain' | 'previewTlsPort'>,
): string | undefined {
  if (config.previewTlsPort !== undefined && config.previewDomain === undefined)
    return 'SQUASH_PREVIEW_TLS_PORT is set and there is no SQUASH_PREVIEW_DOMAIN: set it, or take the port away';
  const isOff = config.listen.port === undefined && config.previewTlsPort === undefined;
  if (isOff || config.authToken !== undefined) return undefined;
  if (isLoopback(config.listen.host)) return undefined;
  return `SQUASH_HOST is "${config.listen.host}", which others can reach, and there is no SQUASH_AUTH_TOKEN: set one (openssl rand -hex 32) or listen on 127.0.0.1`;
}
