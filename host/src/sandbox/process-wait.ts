/**
 * Waiting for what a process does: its end, a line in its output, a port that listens.
 *
 * The end and the output are told, nobody polls for them. That a port listens nobody tells: it is dialled, at growing intervals.
 */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { followOutput, type OutputSource } from './process-output.ts';
import { endedProcess, type Found } from './processes.ts';
import type { Sandbox } from './sandbox.ts';

export type Awaited =
  | { readonly for: 'exit' }
  /** `pattern`: parts of a line in their order, between them anything. One part is a text that stands in it. */
  | { readonly for: 'log'; readonly parts: readonly string[]; readonly after: number }
  | { readonly for: 'port'; readonly port: number };

export interface Met {
  readonly seq: number | null;
  readonly line: string | null;
}

interface Watched extends Found {
  readonly sandbox: Sandbox;
  /** Of its output. @throws output_not_kept */
  readonly source: () => OutputSource;
}

const nothing: Met = { seq: null, line: null };

/** @throws process_ended where it ends first, sandbox_not_found; what aborts `signal` ends it with nothing */
export async function waitFor(
  watched: Watched,
  wish: Awaited,
  signal: AbortSignal,
): Promise<Met | undefined> {
  switch (wish.for) {
    case 'exit':
      await Promise.race([endedProcess(watched), aborted(signal)]);
      return signal.aborted ? undefined : nothing;
    case 'log':
      return await waitForLine(watched, wish, signal);
    case 'port':
      return await waitForPort(watched, wish.port, signal);
  }
}

async function waitForLine(
  { source, row }: Watched,
  { parts, after }: Extract<Awaited, { for: 'log' }>,
  signal: AbortSignal,
): Promise<Met | undefined> {
  const lines = { stdout: new Lines(), stderr: new Lines() };
  const wish = { after, isFollowing: true, isStalling: false };
  for await (const event of followOutput(source(), wish, signal)) {
    if (event.type === 'gap') {
      // What stands before the hole and behind it is no line.
      lines.stdout = new Lines();
      lines.stderr = new Lines();
      continue;
    }
    const before = event.seq - event.data.length;
    for (const { text, end } of lines[event.stream].add(event.data)) {
      if (hasParts(text, parts)) return { seq: before + end, line: text };
    }
  }
  if (signal.aborted) return undefined;
  throw new AppError('process_ended', `Process ${row.seq} has ended and wrote no such line`);
}

/** Without an expression of the caller's: nothing here takes longer than to look through the line once for each part. */
function hasParts(text: string, parts: readonly string[]): boolean {
  let from = 0;
  for (const part of parts) {
    const at = text.indexOf(part, from);
    if (at < 0) return false;
    from = at + part.length;
  }
  return true;
}

/** Cuts one stream into lines, each no longer than is held against a pattern. */
class Lines {
  #partial = Buffer.alloc(0);

  /** `end`: behind which byte of `data` the line ends. A line that has not ended is looked at as far as it goes, too. */
  *add(data: Buffer): Generator<{ readonly text: string; readonly end: number }> {
    let from = 0;
    for (;;) {
      const newline = data.indexOf(0x0a, from);
      const end = newline < 0 ? data.length : newline;
      this.#partial = Buffer.concat([this.#partial, data.subarray(from, end)]);
      // A prompt ends without a newline.
      yield { text: this.#partial.toString('utf8').replace(/\r$/, ''), end };
      if (newline < 0) break;
      this.#partial = Buffer.alloc(0);
      from = newline + 1;
    }
    if (this.#partial.length > limits.processLineBytesMax) {
      this.#partial = this.#partial.subarray(-limits.processLineBytesMax);
    }
  }
}

async function waitForPort(
  { sandbox, run, row }: Watched,
  port: number,
  signal: AbortSignal,
): Promise<Met | undefined> {
  let isOver = run === undefined;
  const over = run?.done.then(
    () => (isOver = true),
    () => (isOver = true),
  );
  for (
    let pauseMs: number = limits.processPortMsMin;
    !signal.aborted;
    pauseMs = Math.min(pauseMs * 2, limits.processPortMsMax)
  ) {
    if (await listens(sandbox, port, signal)) return nothing;
    if (isOver) {
      throw new AppError(
        'process_ended',
        `Process ${row.seq} has ended, and nothing listens on port ${port}`,
      );
    }
    await Promise.race([pause(pauseMs, signal), over]);
  }
  return undefined;
}

async function listens(sandbox: Sandbox, port: number, signal: AbortSignal): Promise<boolean> {
  await sandbox.ready();
  try {
    const connection = await sandbox.guest.dial(port, signal);
    connection.destroy();
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    if (error instanceof AppError && error.code === 'port_unreachable') return false;
    throw error;
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const stop = new AbortController();
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => resolve(), { once: true, signal: stop.signal });
  await promise;
  clearTimeout(timer);
  stop.abort();
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
