/** Follows a stream of events that can be resumed: where it breaks off it goes on behind the last one. */
import { CliFailure, exitCodes } from '../failure.ts';
import type { Client } from './client.ts';
import { readEvents, type ServerEvent } from '@squash/sdk/event-stream';

/** Attempts without a new event before a broken stream is given up: the daemon may be restarting. */
const attemptsMax = 5;
const retryMs = 500;

export interface Following {
  readonly after: string | number | undefined;
  readonly path: (after: string | number | undefined) => string;
  /** The place to resume behind; undefined: where it was. */
  readonly onEvent: (event: ServerEvent) => string | number | undefined;
}

/** Until it is interrupted. @throws CliFailure where nothing comes back */
export async function followEvents(client: Client, following: Following): Promise<never> {
  let { after } = following;
  for (let attempts = 0; ; attempts += 1) {
    try {
      const response = await client.open(following.path(after), { accept: 'text/event-stream' });
      for await (const event of readEvents(response.body())) {
        attempts = 0;
        after = following.onEvent(event) ?? after;
      }
    } catch (failure) {
      const isBroken = !(failure instanceof CliFailure) || failure.exitCode === exitCodes.unreachable;
      if (!isBroken || attempts >= attemptsMax) throw failure;
    }
    if (attempts >= attemptsMax) {
      throw new CliFailure('unreachable', 'the stream of events broke off', exitCodes.unreachable);
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}
