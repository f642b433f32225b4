/** `process.wait`: answers when it has happened, refuses when it can't any more, and says so when the time is over. */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { QueryOf } from '@squash/contract/operations/operation';
import type { processOperations } from '@squash/contract/operations/processes';
import type { Engine } from '../engine/engine.ts';
import { needScope } from '../http/parse.ts';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';

type Wait = (typeof processOperations)['process.wait'];
type Awaited = Parameters<Engine['processes']['wait']>[2];

export function waiting(processes: Engine['processes']): Handler<Wait> {
  return async ({ params, query, caller, signal }) => {
    // It is dialled, and what rests is woken for it.
    if (query.for === 'port') needScope(caller, 'exec', 'for=port');
    const wish = wishOf(query);
    const waitMs = query.timeout_ms ?? limits.processWaitMsDefault;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), waitMs);
    try {
      const stop = AbortSignal.any([signal, late.signal]);
      const answer = await processes.wait(params.id, params.process, wish, stop);
      if (answer !== undefined) return json(answer);
    } finally {
      clearTimeout(timer);
    }
    if (signal.aborted) throw new AppError('shutting_down', 'The daemon is stopping; the process goes on');
    throw new AppError('wait_timeout', `It has not happened within ${waitMs} ms; the process goes on`);
  };
}

function wishOf({ for: what, text, pattern, after, port }: QueryOf<Wait>): Awaited {
  const isFor = (wanted: string, given: unknown, name: string): void => {
    if (given !== undefined && what !== wanted) {
      throw new AppError('invalid_request', `${name} belongs to for=${wanted}`);
    }
  };
  isFor('log', text, 'text');
  isFor('log', pattern, 'pattern');
  isFor('log', after, 'after');
  isFor('port', port, 'port');
  if (what === 'exit') return { for: 'exit' };
  if (what === 'port') {
    if (port === undefined) throw new AppError('invalid_request', 'for=port needs port');
    return { for: 'port', port };
  }
  if ((text === undefined) === (pattern === undefined)) {
    throw new AppError('invalid_request', 'for=log needs either text or pattern');
  }
  return { for: 'log', parts: text === undefined ? (pattern ?? '').split('*') : [text], after: after ?? 0 };
}
