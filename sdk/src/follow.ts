/**
 * Streams of events that survive their connection: where one breaks off it goes on behind the last event that came, at the next daemon
 * as well.
 */
import { type CallOptions, type Connection, type OperationId, pause } from './connection.ts';
import { SquashError, Unreachable } from './errors.ts';
import { readEvents, type ServerEvent } from './event-stream.ts';
import { protocolError } from './protocol-error.ts';
import type { WireAnswer } from './transport.ts';

/** Before each new attempt; all in all what a daemon may take that starts again with many sandboxes. An event begins them anew. */
const pausesMs = [250, 1_000, 3_000, 5_000, 5_000, 5_000];

export interface Following {
  /** The id of the event to begin behind. */
  readonly after?: string | undefined;
  /** Behind this event nothing comes. */
  readonly isLast: (event: ServerEvent) => boolean;
  /** The stream ends when the daemon says so, and not with an event. */
  readonly endsByItself?: boolean;
  /** Told before each new attempt: what happened in between may be lost. */
  readonly onBreak?: () => void;
}

export async function* follow<Id extends OperationId>(
  connection: Connection,
  id: Id,
  { isLast, endsByItself = false, onBreak, ...options }: CallOptions<Id> & Following,
): AsyncGenerator<ServerEvent, void, void> {
  let { after } = options;
  let wasThere = false;
  for (let attempt = 0; ; attempt += 1) {
    try {
      const answer = await openStream(connection, id, { ...(options as CallOptions<Id>), after });
      wasThere = true;
      for await (const event of readEvents(answer.body)) {
        attempt = 0;
        after = event.id ?? after;
        yield event;
        if (isLast(event)) return;
      }
      if (endsByItself) return;
    } catch (error) {
      const isBroken =
        error instanceof Unreachable || (error instanceof SquashError && error.code === 'shutting_down');
      if (!wasThere || !isBroken || pausesMs[attempt] === undefined) throw error;
    }
    const pauseMs = pausesMs[attempt];
    if (pauseMs === undefined)
      throw new Unreachable('broken_off', { message: 'the stream of events ends again and again' });
    onBreak?.();
    await pause(pauseMs, options.signal);
  }
}

async function openStream<Id extends OperationId>(
  connection: Connection,
  id: Id,
  { after, ...options }: CallOptions<Id> & { readonly after: string | undefined },
): Promise<WireAnswer> {
  const place = after === undefined ? {} : { 'last-event-id': after };
  const answer = await connection.open(id, {
    ...options,
    headers: { ...options.headers, accept: 'text/event-stream', ...place },
  } as CallOptions<Id>);
  if (answer.header('content-type')?.startsWith('text/event-stream') === true) return answer;
  answer.discard();
  throw protocolError("the daemon's answer is no stream of events");
}

/** The record that an event carries. */
export function dataOf({ data }: ServerEvent): object {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw protocolError("an event of the daemon's is no JSON", { cause });
  }
  if (typeof value !== 'object' || value === null)
    throw protocolError("an event of the daemon's is no record");
  return value;
}
