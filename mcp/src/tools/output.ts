/** Follows a process and says what came of it, as `run_command` and the tools of background processes tell it. */
import { outputBytes, type Process, type ProcessInfo } from '@squash/sdk';
import { cleanLine, cleanOutput } from '../output/clean.ts';
import { HeadTail } from '../output/head-tail.ts';
import { frameOutput, type Framed } from '../output/frame.ts';

/** How often a client is told that something still runs: many give up on a call from which nothing comes. */
export const progressMs = 2_000;

export interface Read {
  readonly kept: HeadTail;
  readonly info: ProcessInfo;
}

export interface Reading {
  readonly from: number;
  readonly bytesMax: number;
  readonly signal: AbortSignal;
  readonly onOutput?: (kept: HeadTail, bytes: Uint8Array) => void;
}

/** Until the process has ended, or `signal` says so: then that is no error. */
export async function readOutput(process: Process, reading: Reading): Promise<Read> {
  const { from, bytesMax, signal, onOutput } = reading;
  const kept = new HeadTail(bytesMax, from);
  try {
    for await (const event of process.output({ from, signal })) {
      if (event.type === 'gap') kept.skip(event.bytes);
      if (event.type !== 'output') continue;
      const bytes = outputBytes(event);
      kept.add(bytes);
      onOutput?.(kept, bytes);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return { kept, info: process.info };
}

/** How long output has to be silent until what has come is told. */
const quietMs = 200;

/** What there is behind `from`; where that is nothing, what comes within `waitMs`. */
export async function readForAWhile(
  process: Process,
  { waitMs, signal, ...reading }: Reading & { readonly waitMs: number },
): Promise<Read> {
  const enough = new AbortController();
  const both = AbortSignal.any([signal, enough.signal]);
  const stop = () => enough.abort();
  // What is kept comes at once; a connection takes a moment.
  let timer = setTimeout(stop, Math.max(waitMs, quietMs));
  const onOutput = () => {
    clearTimeout(timer);
    timer = setTimeout(stop, quietMs);
  };
  // A program that writes without end is not waited for.
  const last = setTimeout(stop, waitMs + 2_000);
  try {
    return await readOutput(process, { ...reading, signal: both, onOutput });
  } finally {
    clearTimeout(timer);
    clearTimeout(last);
    signal.throwIfAborted();
  }
}

export function framedOutput({ kept, info }: Read, chars: number): Framed {
  return frameOutput(
    kept.kept(),
    chars,
    (from) =>
      `read_process with {"process": ${info.process}, "from": ${from}} shows them as far as they are kept`,
  );
}

/** One sentence without anything that a sandbox chose. */
export function stateOf(info: ProcessInfo): string {
  const name = `process ${info.process}`;
  if (info.state === 'running') return `${name} is running`;
  const after = info.duration_ms === null ? '' : ` after ${seconds(info.duration_ms)}`;
  if (info.timed_out) return `${name} was ended${after}: its time was over (exit code ${info.exit_code})`;
  const why = info.reason === null || info.reason === undefined ? '' : `, ${info.reason}`;
  const signal = info.signal === null ? '' : ` (signal ${info.signal}${why})`;
  return `${name} ended${after} with exit code ${info.exit_code}${signal}`;
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 0)} s`;
}

/** The line that was written last, for whoever waits. */
export function lastLine(bytes: Uint8Array): string {
  const lines = cleanOutput(new TextDecoder().decode(bytes.subarray(-1_024)))
    .trimEnd()
    .split('\n');
  return cleanLine(lines.at(-1) ?? '').slice(0, 200);
}

/** For programs that use the server. */
export function metaOf(info: ProcessInfo, kept: HeadTail, isCut: boolean): Readonly<Record<string, unknown>> {
  return {
    'squash/process': info.process,
    'squash/exit_code': info.exit_code,
    'squash/timed_out': info.timed_out,
    'squash/next': kept.next,
    'squash/cut': isCut,
  };
}
