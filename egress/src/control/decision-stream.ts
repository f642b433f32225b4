/**
 * Decisions, questions and connections to callers as server-sent events. A follower that does not read is cut when its queue is full: it comes back with the
 * last id it has seen, and nothing is lost.
 */
import type { ServerResponse } from 'node:http';
import { egressLimits as limits } from '../limits.ts';
import type { EgressDecision } from '@squash/contract/egress-protocol';
import type { CallerFollower } from '../connections/callers.ts';
import type { QuestionFollower, Questions } from '../approvals/questions.ts';

export function streamDecisions(
  response: ServerResponse,
  follow: (onRows: (rows: readonly EgressDecision[]) => void) => Disposable,
): void {
  const write = begin(response);
  const following = follow((rows) => {
    write(rows.map((row) => `event: decision\nid: ${row.id}\ndata: ${JSON.stringify(row)}\n\n`).join(''));
  });
  response.once('close', () => following[Symbol.dispose]());
}

export function streamQuestions(
  response: ServerResponse,
  follow: (follower: QuestionFollower) => ReturnType<Questions['follow']>,
): void {
  const write = begin(response);
  const say = (event: string, data: unknown): void =>
    write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  const following = follow({
    onAsked: (asked) => say('asked', asked),
    onEnded: (end) => say('ended', end),
  });
  say('open', following.open);
  response.once('close', () => following[Symbol.dispose]());
}

export function streamOffer(response: ServerResponse, offer: (follower: CallerFollower) => Disposable): void {
  const write = begin(response);
  const say = (event: string, connection: string | null): void =>
    write(`event: ${event}\ndata: ${JSON.stringify({ connection })}\n\n`);
  const offering = offer({
    onConnection: (id) => say('connection', id),
    onBroken: (id) => say('broken', id),
    onEnd: () => void response.end(),
  });
  say('offered', null);
  response.once('close', () => offering[Symbol.dispose]());
}

function begin(response: ServerResponse): (text: string) => void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.flushHeaders();
  const alive = setInterval(() => void response.write(':\n\n'), limits.followerKeepAliveMs);
  response.once('close', () => clearInterval(alive));
  return (text) => {
    response.write(text);
    if (response.writableLength > limits.followerQueueBytesMax) response.destroy();
  };
}
