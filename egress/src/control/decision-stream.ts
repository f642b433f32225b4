/**
 * Decisions as server-sent events. A follower that does not read is cut when its queue is full: it comes back with the
 * last id it has seen, and nothing is lost.
 */
import type { ServerResponse } from 'node:http';
import { egressLimits as limits } from '../limits.ts';
import type { EgressDecision } from '@squash/contract/egress-protocol';

export function streamDecisions(
  response: ServerResponse,
  follow: (onRows: (rows: readonly EgressDecision[]) => void) => Disposable,
): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.flushHeaders();
  const following = follow((rows) => {
    response.write(
      rows.map((row) => `event: decision\nid: ${row.id}\ndata: ${JSON.stringify(row)}\n\n`).join(''),
    );
    if (response.writableLength > limits.followerQueueBytesMax) response.destroy();
  });
  const alive = setInterval(() => void response.write(':\n\n'), limits.followerKeepAliveMs);
  response.once('close', () => {
    clearInterval(alive);
    following[Symbol.dispose]();
  });
}
