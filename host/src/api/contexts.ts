/** Contexts and their cells: `context.*`. A cell runs to its end whether or not the client waits. */
import type { CellEvent, Execution } from '@squash/contract/context';
import type { contextOperations } from '@squash/contract/operations/contexts';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { Engine } from '../engine/engine.ts';
import type { HttpCounters } from '../http/counters.ts';
import { empty, json, type Reply } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { type Format, formatOf, written } from './process-output.ts';
import { resumePoint } from './resume-point.ts';

export function contextHandlers(
  { contexts }: Engine,
  counters: Pick<HttpCounters, 'streams'>,
): HandlersOf<typeof contextOperations> {
  return {
    'context.create': async ({ params, body }) => json(await contexts.create(params.id, body)),
    'context.list': async ({ params }) => json({ items: await contexts.list(params.id) }),
    'context.get': async ({ params }) => json(await contexts.get(params.id, params.context)),
    'context.remove': async ({ params }) => {
      await contexts.remove(params.id, params.context);
      return empty;
    },
    'context.run': async ({ params, body, header, caller, signal }) => {
      const format = formatOf(header('accept'));
      // Before it runs: what is refused has run nothing.
      if (format !== undefined) counters.streams.check(caller.owner);
      const events = await contexts.run(params.id, params.context, body, signal);
      return format === undefined ? json(await collected(events)) : stream(events, format);
    },
    'context.output': async ({ params, query, header, signal }) => {
      const after = resumePoint(header('last-event-id')) ?? query.after ?? 0;
      const at = { id: params.id, name: params.context, cell: params.cell };
      const events = await contexts.output(at, { after, isFollowing: query.follow ?? true }, signal);
      return stream(events, query.format ?? formatOf(header('accept')) ?? 'sse');
    },
    'context.interrupt': async ({ params }) => {
      await contexts.interrupt(params.id, params.context);
      return empty;
    },
    'context.restart': async ({ params }) => json(await contexts.restart(params.id, params.context)),
  };
}

function stream(events: AsyncIterable<CellEvent>, format: Format): Reply {
  return {
    type: 'stream',
    contentType: format === 'sse' ? 'text/event-stream' : 'application/x-ndjson',
    pieces: written(events, format),
    keepAlive: format === 'sse' ? ': keep-alive\n\n' : '{"type":"keep_alive"}\n',
  };
}

/** The whole cell. The bridge bounds it; a bridge that does not keep to its bounds is not believed to. */
async function collected(events: AsyncIterable<CellEvent>): Promise<Execution | undefined> {
  const output = { stdout: '', stderr: '' };
  let results: Execution['results'] = [];
  let error: Execution['error'] = null;
  let begin: Extract<CellEvent, { type: 'cell' }> | undefined;
  let bytes = 0;
  const cut = { stdout_bytes: 0, stderr_bytes: 0, results: 0 };
  for await (const event of events) {
    const size = 'seq' in event ? JSON.stringify(event).length : 0;
    const isTooMuch = bytes + size > limits.executionBytesMax;
    if (event.type === 'cell') begin = event;
    else if (event.type === 'stdout' || event.type === 'stderr') {
      if (isTooMuch) cut[`${event.type}_bytes`] += Buffer.byteLength(event.text);
      else output[event.type] += event.text;
    } else if (event.type === 'result') {
      const { type: _type, seq: _seq, cell: _cell, ...result } = event;
      if (isTooMuch || results.length >= limits.executionResultsMax) cut.results += 1;
      else results.push(result);
    } else if (event.type === 'clear') {
      results = [];
    } else if (event.type === 'exception') {
      const { name, message, traceback } = event;
      if (!isTooMuch) error ??= { name, message, traceback };
    } else if (event.type === 'error') {
      throw new AppError('context_ended', event.message);
    } else if (event.type === 'end' && begin !== undefined) {
      const { cell, context, language } = begin;
      const { status, execution_count, duration_ms } = event;
      const all = {
        stdout_bytes: cut.stdout_bytes + event.cut.stdout_bytes,
        stderr_bytes: cut.stderr_bytes + event.cut.stderr_bytes,
        results: cut.results + event.cut.results,
      };
      return {
        cell,
        context,
        language,
        status,
        execution_count,
        duration_ms,
        cut: all,
        ...output,
        results,
        error,
      };
    }
    if (!isTooMuch) bytes += size;
  }
  // The client is gone, and nobody reads it.
  return undefined;
}
