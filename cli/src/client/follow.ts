/** Follows a stream of events that can be resumed: where it breaks off it goes on behind the last one. */
import { readEvents, type ServerEvent } from '@squash/sdk/event-stream';
import { CliFailure, exitCodes } from '../failure.ts';
import type { Client } from './client.ts';

/** Before each new attempt, until a broken stream is given up: the daemon may be restarting with many sandboxes. An event begins them anew. */
const pausesMs = [500, 500, 1_000, 2_000, 3_000, 5_000];

export interface Following<T> {
  /** What breaks off, for the failure. */
  readonly what: string;
  /** Asked before each attempt: it says where to go on. */
  readonly request: () => { readonly path: string; readonly headers?: Readonly<Record<string, string>> };
  /** Anything but undefined is the end. */
  readonly onEvent: (event: ServerEvent) => T | undefined | Promise<T | undefined>;
}

/** @throws CliFailure where nobody is there, or nothing comes back; a refusal or a reader that has gone is final */
export async function followEvents<T>(client: Client, { what, request, onEvent }: Following<T>): Promise<T> {
  let wasThere = false;
  for (let attempts = 0; ; attempts += 1) {
    try {
      const { path, headers } = request();
      const response = await client.open(path, { ...headers, accept: 'text/event-stream' });
      wasThere = true;
      for await (const event of readEvents(response.body())) {
        attempts = 0;
        const end = await onEvent(event);
        if (end !== undefined) return end;
      }
    } catch (failure) {
      const isBroken = !(failure instanceof CliFailure) || failure.exitCode === exitCodes.unreachable;
      if (!isBroken || !wasThere || pausesMs[attempts] === undefined) throw failure;
    }
    const pauseMs = pausesMs[attempts];
    if (pauseMs === undefined) {
      throw new CliFailure('unreachable', `the stream of ${what} broke off`, exitCodes.unreachable);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
