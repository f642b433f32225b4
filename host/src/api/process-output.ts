/**
 * `process.output`: a process's output as server-sent events or as lines of JSON, from wherever the client left off.
 *
 * The id of an event is the position behind it, so a client that reconnects with the last id it saw misses no byte and gets none
 * twice. Bytes are sent as text where they are UTF-8: a character that was cut is sent whole with what follows, unless nothing does.
 */
import { isUtf8 } from 'node:buffer';
import { AppError, errorCatalog } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { processOperations } from '@squash/contract/operations/processes';
import type { ProcessEvent, ProcessReference } from '@squash/contract/process';
import { wholeCharacters } from '@squash/base/utf8';
import type { Engine } from '../engine/engine.ts';
import { needScope } from '../http/parse.ts';
import type { Reply } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import { resumePoint } from './resume-point.ts';

type Processes = Engine['processes'];
type Bytes = Processes['output'] extends (...all: never[]) => AsyncIterable<infer T> ? T : never;
type Stream = 'stdout' | 'stderr';

export type Format = 'sse' | 'ndjson';

interface Followed {
  readonly id: SandboxId;
  readonly process: ProcessReference;
  readonly after: number;
  readonly isFollowing: boolean;
  readonly isStalling: boolean;
  readonly only: Stream | undefined;
}

export function followingProcess(
  processes: Processes,
): Handler<(typeof processOperations)['process.output']> {
  return ({ params, query, caller, header, signal }) => {
    // Who only looks may not hold a process up.
    if (query.stall === true) needScope(caller, 'exec', 'stall=true');
    const after = resumePoint(header('last-event-id')) ?? query.after ?? 0;
    const format = query.format ?? formatOf(header('accept')) ?? 'sse';
    const followed: Followed = {
      ...params,
      after,
      isFollowing: query.follow ?? true,
      isStalling: query.stall ?? false,
      only: query.streams,
    };
    return outputReply(processes, followed, { format, signal });
  };
}

/** A format of a stream that the client asks for by name. */
export function formatOf(accept: string | undefined): Format | undefined {
  if (accept?.includes('application/x-ndjson') === true) return 'ndjson';
  return accept?.includes('text/event-stream') === true ? 'sse' : undefined;
}

/** @throws process_not_found, output_not_kept, while a status can still say so */
export function outputReply(
  processes: Processes,
  followed: Followed,
  { format, signal }: { readonly format: Format; readonly signal: AbortSignal },
): Reply {
  const { id, isFollowing, isStalling, after } = followed;
  // By its number from here on: a tag may be another's in a moment.
  const { process } = processes.get(id, followed.process);
  const bytes = processes.output(id, process, { after, isFollowing, isStalling }, signal);
  return {
    type: 'stream',
    contentType: format === 'sse' ? 'text/event-stream' : 'application/x-ndjson',
    pieces: written(processEvents(processes, { ...followed, process, bytes, signal }), format),
    keepAlive: format === 'sse' ? ': keep-alive\n\n' : '{"type":"keep_alive"}\n',
  };
}

interface Source extends Followed {
  readonly process: number;
  readonly bytes: AsyncIterable<Bytes>;
  readonly signal: AbortSignal;
}

/** All that a follower is told. Ends without `exit` where the daemon stops: clients resume at the next one. */
async function* processEvents(
  processes: Processes,
  source: Source,
): AsyncGenerator<ProcessEvent, void, void> {
  const { id, process, signal } = source;
  let last = source.after;
  try {
    const first = processes.get(id, process);
    yield { type: 'process', process: first };
    for await (const event of texts(source.bytes, source.only)) {
      last = event.seq;
      yield event.type === 'output' && first.pty ? { ...event, stream: 'pty' } : event;
    }
    if (signal.aborted) return;
    const end = processes.get(id, process);
    if (end.state === 'ended') {
      yield { type: 'exit', seq: Math.max(last, end.stdout_bytes + end.stderr_bytes), process: end };
    }
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof AppError)) throw error;
    yield errorEvent(error);
  }
}

export function errorEvent({ code, message }: AppError): ProcessEvent {
  return { type: 'error', code, message, remedy: errorCatalog[code].remedy };
}

interface Held {
  readonly seq: number;
  readonly stream: Stream;
  readonly data: Buffer;
}

type TextEvent = Extract<ProcessEvent, { type: 'output' | 'gap' }>;

/** Bytes as text: the beginning of a character waits a moment for the rest of it. */
async function* texts(
  bytes: AsyncIterable<Bytes>,
  only: Stream | undefined,
): AsyncGenerator<TextEvent, void, void> {
  const iterator = bytes[Symbol.asyncIterator]();
  let held: Held | undefined;
  let next: Promise<IteratorResult<Bytes>> | undefined;
  try {
    for (;;) {
      next ??= iterator.next();
      const result = held === undefined ? await next : await soon(next);
      if (result === undefined) {
        if (held !== undefined) yield encoded(held);
        held = undefined;
        continue;
      }
      next = undefined;
      const event = result.done === true ? undefined : result.value;
      if (event?.type === 'output' && only !== undefined && event.stream !== only) continue;
      if (held !== undefined && (event?.type !== 'output' || event.stream !== held.stream)) {
        yield encoded(held);
        held = undefined;
      }
      if (event === undefined) return;
      if (event.type === 'gap') {
        yield event;
        continue;
      }
      const whole: Held =
        held === undefined ? event : { ...event, data: Buffer.concat([held.data, event.data]) };
      const length = wholeCharacters(whole.data);
      const isText = isUtf8(whole.data.subarray(0, length));
      const rest = isText ? whole.data.subarray(length) : Buffer.alloc(0);
      held = rest.length === 0 ? undefined : { ...whole, data: rest };
      const sent = {
        ...whole,
        seq: whole.seq - rest.length,
        data: whole.data.subarray(0, whole.data.length - rest.length),
      };
      if (sent.data.length > 0) yield encoded(sent);
    }
  } finally {
    await iterator.return?.();
  }
}

function encoded({ seq, stream, data }: Held): TextEvent {
  const content = isUtf8(data) ? { text: data.toString('utf8') } : { base64: data.toString('base64') };
  return { type: 'output', seq, stream, ...content };
}

/** Undefined where it takes longer than a character is waited for. */
async function soon<T>(next: Promise<T>): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, limits.processCharacterMs, undefined);
  try {
    return await Promise.race([next, promise]);
  } finally {
    clearTimeout(timer);
  }
}

export async function* written(
  events: AsyncIterable<{ readonly type: string; readonly seq?: number }>,
  format: Format,
): AsyncGenerator<string, void, void> {
  for await (const event of events) {
    const line = JSON.stringify(event);
    if (format === 'ndjson') {
      yield `${line}\n`;
      continue;
    }
    const id = 'seq' in event ? `id: ${event.seq}\n` : '';
    yield `${id}event: ${event.type}\ndata: ${line}\n\n`;
  }
}
