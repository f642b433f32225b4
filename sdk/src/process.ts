/**
 * One process that runs in the background. Its output is one row of bytes, both streams in the order in which they came; a position
 * in it means the same byte at every reader and every daemon, which is how a reader whose connection broke misses none.
 */
import { fromBase64, joined } from './bytes.ts';
import { type Connection, fieldOf, pause, type Signal } from './connection.ts';
import { badRequest, refusalError, TimedOut } from './errors.ts';
import { type ExecResult, execResult } from './exec-result.ts';
import { dataOf, follow } from './follow.ts';
import { protocolError } from './protocol-error.ts';
import type { Operations, ProcessInfo, ProcessWait } from './records.gen.ts';
import type { Upload } from './transport.ts';

type WireEvent = Operations['process.output']['event'];
/** `process` first, then `output` and `gap`, at last `exit`. `seq` is the position behind the event. */
export type ProcessEvent = Exclude<WireEvent, { readonly type: 'error' }>;

type Query = Operations['process.output']['query'];

export interface OutputOptions extends Omit<Query, 'after' | 'format'>, Signal {
  /** The position to begin behind; 0, the beginning, unless given. */
  readonly from?: number;
}

export interface WaitOptions extends Omit<Operations['process.wait']['query'], 'for'>, Signal {}

/** How long the daemon waits in one request. */
const waitMsDefault = 60_000;
/** Whoever answers sooner that nothing has happened is not asked in a circle. */
const waitMsMin = 1_000;
/** Of one process the daemon keeps 4 MiB of output at most. */
const resultBytesMax = 8_388_608;

export class Process {
  readonly number: number;
  readonly #connection: Connection;
  readonly #path: { readonly id: string; readonly process: string };
  #info: ProcessInfo;

  /** Programs call `box.start` or `box.processes.get`. */
  constructor(connection: Connection, sandbox: string, record: ProcessInfo) {
    this.#connection = connection;
    this.number = fieldOf(record, 'process', 'number') as number;
    this.#path = { id: sandbox, process: String(this.number) };
    this.#info = record;
  }

  get tag(): string | null {
    return this.#info.tag;
  }

  /** As it was when it was started, found, or heard of last. */
  get info(): ProcessInfo {
    return this.#info;
  }

  /** `process.get`: looks again. @throws NotFound */
  async refresh(options: Signal = {}): Promise<ProcessInfo> {
    return this.#seen(await this.#connection.call('process.get', { path: this.#path, ...options }));
  }

  /**
   * `process.output`: its output as it comes, to its end. A connection that breaks is made again at the next byte. `follow: false` gives what
   * is kept now. A `gap` says what is not kept any more. @throws NotFound, LimitReached
   */
  async *output({ from, signal, ...query }: OutputOptions = {}): AsyncGenerator<ProcessEvent, void, void> {
    let position = from ?? 0;
    let isFirst = true;
    const events = follow(this.#connection, 'process.output', {
      path: this.#path,
      query: { ...query, after: position },
      signal,
      isLast: ({ name }) => name === 'exit',
      endsByItself: query.follow === false,
    });
    for await (const { name, ...event } of events) {
      // A newer daemon's events, that this release does not know.
      if (!['process', 'output', 'gap', 'exit', 'error'].includes(name)) continue;
      const record = dataOf({ name, ...event }) as WireEvent;
      if (record.type === 'error') throw refusalError({ ...record, status: 0 });
      if (record.type === 'process') {
        this.#seen(record.process);
        // It comes again with each connection.
        if (isFirst) yield record;
        isFirst = false;
        continue;
      }
      const seq = fieldOf(record, 'seq', 'number') as number;
      if (seq < position) throw protocolError('the daemon sends output again that it has sent');
      position = seq;
      if (record.type === 'exit') this.#seen(record.process);
      yield record;
    }
  }

  /** `process.stdin`: input for a process that was started with `stdin: true` or a `pty`. Returns when it has it. @throws Conflict */
  async write(data: Upload, options: Signal = {}): Promise<void> {
    await this.#connection.call('process.stdin', { path: this.#path, upload: data, ...options });
  }

  /** `process.stdin`: the end of its input; a terminal gets ^D. */
  async closeStdin(options: Signal = {}): Promise<void> {
    await this.#connection.call('process.stdin', {
      path: this.#path,
      query: { eof: true },
      upload: '',
      ...options,
    });
  }

  /**
   * `process.wait`: for the end; with `text` or `pattern` for a line, with `port` until it listens. `timeout_ms` is 60,000 unless given, but
   * the end is waited for as long as it takes. @throws TimedOut, Conflict where it can't come any more
   */
  async wait({ signal, ...query }: WaitOptions = {}): Promise<ProcessWait> {
    const kinds = [query.text ?? query.pattern, query.port].filter((each) => each !== undefined);
    if (kinds.length > 1) throw badRequest('one wait is for a line or for a port');
    const what = query.port !== undefined ? 'port' : kinds.length === 1 ? 'log' : 'exit';
    const takesMs = query.timeout_ms ?? waitMsDefault;
    const options = { path: this.#path, query: { ...query, for: what }, signal, takesMs } as const;
    for (;;) {
      const soonest = performance.now() + waitMsMin;
      try {
        const answer = await this.#connection.call('process.wait', options);
        this.#seen(answer.process);
        return answer;
      } catch (error) {
        const isOver = what !== 'exit' || query.timeout_ms !== undefined;
        if (isOver || !(error instanceof TimedOut)) throw error;
        await pause(soonest - performance.now(), signal);
      }
    }
  }

  /** `process.signal`: a name such as `TERM`, or a number, to the whole process group. */
  async signal(signal: string | number, options: Signal = {}): Promise<void> {
    await this.#connection.call('process.signal', { path: this.#path, body: { signal }, ...options });
  }

  /** `process.resize`: of its terminal. */
  async resize(columns: number, rows: number, options: Signal = {}): Promise<void> {
    await this.#connection.call('process.resize', { path: this.#path, body: { columns, rows }, ...options });
  }

  /** Waits for the end; how it ended with what is kept of its output, as `exec` has it. What a terminal shows is in `stdout`. */
  async result(options: Signal = {}): Promise<ExecResult> {
    const streams = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
    let isTruncated = false;
    let bytes = 0;
    for await (const event of this.output(options)) {
      if (event.type === 'gap') isTruncated = true;
      if (event.type !== 'output') continue;
      const part = outputBytes(event);
      bytes += part.length;
      if (bytes > resultBytesMax) isTruncated = true;
      else streams[event.stream === 'stderr' ? 'stderr' : 'stdout'].push(part);
    }
    const [stdout, stderr] = [streams.stdout, streams.stderr].map((parts) =>
      new TextDecoder().decode(joined(parts)),
    );
    return execResult({
      ...this.#info,
      encoding: 'text',
      stdout: stdout ?? '',
      stderr: stderr ?? '',
      truncated: isTruncated,
    });
  }

  #seen(record: ProcessInfo): ProcessInfo {
    fieldOf(record, 'process', 'number');
    this.#info = record;
    return record;
  }
}

/** The bytes of an `output` event, whether they are text or not. */
export function outputBytes(event: Extract<ProcessEvent, { readonly type: 'output' }>): Uint8Array {
  return event.base64 === undefined ? new TextEncoder().encode(event.text ?? '') : fromBase64(event.base64);
}
