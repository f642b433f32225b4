/** Followers of processes for tests: lines of JSON, server-sent events, and clients that are cut again and again. */
import assert from 'node:assert/strict';
import { type ProcessEvent, processEventSchema } from '@squash/contract/process';
import type { TestDaemon } from './daemon.ts';

export type Format = 'sse' | 'ndjson';

/** Events of a stream as they come; ends where the stream does, or where the reader stops. */
export async function* follow(
  daemon: TestDaemon,
  path: string,
  { format, after = 0 }: { readonly format: Format; readonly after?: number },
): AsyncGenerator<ProcessEvent, void, void> {
  const accept = format === 'sse' ? 'text/event-stream' : 'application/x-ndjson';
  const headers = { accept, 'last-event-id': String(after) };
  const response = await fetch(`${daemon.url}${path}`, { headers });
  assert.equal(response.status, 200, path);
  assert.equal(response.headers.get('content-type'), accept);
  assert.ok(response.body !== null);
  yield* parsed(response.body, format);
}

export async function* parsed(
  body: ReadableStream<Uint8Array>,
  format: Format,
): AsyncGenerator<ProcessEvent, void, void> {
  const separator = format === 'sse' ? '\n\n' : '\n';
  let text = '';
  const decoder = new TextDecoder();
  for await (const piece of body) {
    text += decoder.decode(piece, { stream: true });
    for (let end = text.indexOf(separator); end >= 0; end = text.indexOf(separator)) {
      const block = text.slice(0, end);
      text = text.slice(end + separator.length);
      if (format === 'sse' && block.startsWith(':')) continue;
      yield format === 'sse' ? sseEvent(block) : processEventSchema.parse(JSON.parse(block));
    }
  }
}

function sseEvent(block: string): ProcessEvent {
  const fields = new Map(
    block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
  );
  const event = processEventSchema.parse(JSON.parse(fields.get('data') ?? ''));
  assert.equal(fields.get('event'), event.type);
  assert.equal(fields.get('id'), 'seq' in event ? String(event.seq) : undefined);
  return event;
}

export function bytesOf(event: Extract<ProcessEvent, { type: 'output' }>): Buffer {
  return event.text === undefined ? Buffer.from(event.base64 ?? '', 'base64') : Buffer.from(event.text);
}

export interface Gathered {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly gapBytes: number;
  readonly seq: number;
  readonly cuts: number;
  readonly exit: Extract<ProcessEvent, { type: 'exit' }> | undefined;
}

/** Follows to the end, leaving the connection `cuts` times, about every `cutBytes`, and coming again where it left. */
export async function gather(
  open: (after: number) => AsyncIterable<ProcessEvent>,
  { cuts = 0, cutBytes = 0 }: { readonly cuts?: number; readonly cutBytes?: number } = {},
): Promise<Gathered> {
  const parts: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  let [seq, gapBytes, cutsDone] = [0, 0, 0];
  for (;;) {
    const from = seq;
    for await (const event of open(seq)) {
      if (event.type === 'exit') {
        const [stdout, stderr] = [Buffer.concat(parts.stdout), Buffer.concat(parts.stderr)];
        return { stdout, stderr, gapBytes, seq: event.seq, cuts: cutsDone, exit: event };
      }
      assert.notEqual(event.type, 'error', JSON.stringify(event));
      if (event.type === 'gap') gapBytes += event.bytes;
      if (event.type === 'output')
        parts[event.stream === 'stderr' ? 'stderr' : 'stdout'].push(bytesOf(event));
      if (event.type === 'gap' || event.type === 'output') {
        assert.ok(event.seq > seq, 'positions rise');
        ({ seq } = event);
      }
      if (cutsDone < cuts && seq - from >= cutBytes) {
        cutsDone += 1;
        break;
      }
    }
  }
}
