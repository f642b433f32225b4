/**
 * `sandbox.logs`: the log may hold a thousand records of 128 KiB, so it is read and sent some records at a time.
 */
import type { ExecRecord } from '@squash/contract/exec';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { sandboxLogs } from '@squash/contract/operations/commands';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

interface Page {
  readonly after: number;
  readonly limit: number;
}

export function sandboxLogsHandler(engine: Engine): Handler<typeof sandboxLogs> {
  return ({ params, query }) => {
    const page = { after: query.after ?? 0, limit: query.limit ?? limits.execHistoryMax };
    // Throws where there is no such sandbox, while a status can still say so.
    engine.get(params.id);
    return {
      type: 'stream',
      contentType: 'application/json',
      pieces: jsonArray(records(engine, params.id, page)),
    };
  };
}

async function* jsonArray(pages: Iterable<readonly ExecRecord[]>): AsyncGenerator<string, void, void> {
  let separator = '[';
  for (const page of pages) {
    if (page.length === 0) continue;
    yield separator + page.map((record) => JSON.stringify(record)).join(',');
    separator = ',';
  }
  yield separator === '[' ? '[]' : ']';
}

/** A command that ends meanwhile may be in the answer or not; none is in it twice. */
function* records(engine: Engine, id: SandboxId, { after, limit }: Page): Generator<readonly ExecRecord[]> {
  let left = limit;
  let behind = after;
  while (left > 0) {
    const page = engine.logs(id, { after: behind, limit: Math.min(left, limits.logsPageRecords) });
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < Math.min(left, limits.logsPageRecords)) return;
    left -= page.length;
    behind = last.seq;
  }
}
