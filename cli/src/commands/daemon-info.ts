/** `GET /v1/info`, where that no daemon answers is an answer. */
import type { DaemonInfo } from '@squash/contract/daemon';
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
