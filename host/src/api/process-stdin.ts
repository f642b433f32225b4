/** `process.stdin`: the body of a request becomes input, piece by piece, no faster than the process reads. */
import type { IncomingMessage } from 'node:http';
import { limits } from '@squash/contract/limits';
import type { processOperations } from '@squash/contract/operations/processes';
import type { Engine } from '../engine/engine.ts';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import { bodyChunks } from '../http/upload.ts';

export function feeding(
  processes: Engine['processes'],
): Handler<(typeof processOperations)['process.stdin']> {
  return async ({ params, query, incoming }) => {
    const input = { chunks: chunksOf(incoming), isLast: query.eof ?? false, patience };
    return json({ bytes: await processes.write(params.id, params.process, input) });
  };
}

const patience = { waitMs: limits.processStdinMs, gone: undefined };

/** A request without a body is an empty one. */
async function* chunksOf(incoming: IncomingMessage): AsyncGenerator<Buffer, void, void> {
  if (!incoming.readableEnded) yield* bodyChunks(incoming);
}
