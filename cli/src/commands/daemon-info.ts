/** `GET /v1/info`, where that no daemon answers is an answer. */
import type { DaemonInfo } from '@squash/contract/daemon';
import { localDataDirectory } from '../client/address.ts';
import type { Client } from '../client/client.ts';
import { CliFailure, exitCodes } from '../failure.ts';

export async function daemonInfo(client: Client): Promise<DaemonInfo | undefined> {
  try {
    return await client.get<DaemonInfo>('/v1/info');
  } catch (failure) {
    if (failure instanceof CliFailure && failure.exitCode === exitCodes.unreachable) return undefined;
    throw failure;
  }
}

/**
 * The same for what starts, ends or mends a daemon: where the port was only guessed, the daemon that has it is
 * ours if it works in our data directory. Another user's must not be stopped, nor filled with our layers.
 */
export async function ownDaemon(client: Client): Promise<DaemonInfo | undefined> {
  if (!('isGuess' in client.address)) return await daemonInfo(client);
  try {
    const info = await daemonInfo(client);
    return info?.data_dir === localDataDirectory() ? info : undefined;
  } catch (failure) {
    // Whoever asks for a token that we don't have, or is no Squash at all, is a stranger.
    if (failure instanceof CliFailure) return undefined;
    throw failure;
  }
}
