/**
 * `egress.decisions`: what a sandbox asked for, as an answer or as server-sent events that can be resumed.
 *
 * The egress process keeps the log. A stream outlives it: when the process is started again the stream goes on behind
 * the last row that was sent.
 */
import type { EgressDecisionInfo } from '@squash/contract/egress';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { networkOperations } from '@squash/contract/operations/network';
import type { EgressDecision, EgressDecisions } from '@squash/contract/egress-protocol';
import { pause } from '@squash/base/pause';
import { json } from '../http/reply.ts';
import type { Engine } from '../engine/engine.ts';
import type { Handler } from '../http/router.ts';
import { resumePoint } from './resume-point.ts';

type Query = Readonly<Record<string, string | number | undefined>>;

/** What the egress process answers about its log; `EgressClient` is one. */
export interface DecisionLog {
  decisions(query: Query): Promise<EgressDecisions>;
  follow(query: Query, signal: AbortSignal): AsyncIterable<EgressDecision>;
}

export function readingDecisions(
  sandboxes: Engine['sandboxes'],
  log: DecisionLog,
): Handler<(typeof networkOperations)['egress.decisions']> {
  return async ({ params, query, header, signal }) => {
    sandboxes.get(params.id);
    const { follow, ...filters } = query;
    const after = resumePoint(header('last-event-id')) ?? query.after;
    const asked: Query = { ...filters, after, sandbox: params.id };
    if (follow !== true) {
      const { decisions, removed_before } = await log.decisions(asked);
      return json({ decisions: decisions.map(shown), removed_before });
    }
    return {
      type: 'stream',
      contentType: 'text/event-stream',
      pieces: events(log, asked, signal),
      keepAlive: ': keep-alive\n\n',
    };
  };
}

async function* events(
  log: DecisionLog,
  asked: Query,
  signal: AbortSignal,
): AsyncGenerator<string, void, void> {
  let { after } = asked;
  while (!signal.aborted) {
    try {
      for await (const decision of log.follow({ ...asked, after }, signal)) {
        after = decision.id;
        yield `id: ${decision.id}\nevent: decision\ndata: ${JSON.stringify(shown(decision))}\n\n`;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof AppError) || error.code !== 'egress_unavailable') throw error;
    }
    await pause(limits.egressRetryMsMax, signal);
  }
}

/** The sandbox is in the address. */
function shown({ sandbox: _sandbox, ...decision }: EgressDecision): EgressDecisionInfo {
  return decision;
}
