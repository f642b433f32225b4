/**
 * A stream client's view of one run: output as it comes, then the record.
 *
 * What is read slowly is held up to `sessionBufferBytesMax`; then the run stops pulling, the guest's window
 * fills, and the command stalls. The exit never waits for the reader: it is stored first and queued last.
 */
import type { ExecRecord } from '@squash/contract/exec';
import { limits } from '@squash/contract/limits';
import type { StreamName } from '#store/rows.ts';
import { type Run, type RunWatcher, sigcont } from './run.ts';

type SessionEvent =
  | { readonly type: 'output'; readonly stream: StreamName; readonly data: Buffer }
  | { readonly type: 'stopped' }
  | { readonly type: 'exit'; readonly record: ExecRecord; readonly signal: number | undefined };

/** A native exec in progress, as the API's WebSocket drives it. */
export interface ExecSession {
  readonly seq: number;
  readonly pid: number;
  events(): AsyncIterableIterator<SessionEvent>;
  writeStdin(chunk: Uint8Array): Promise<void>;
  endStdin(): void;
  resize(rows: number, columns: number): void;
  signal(signo: number): void;
  /** The client is gone: SIGHUP, then the engine drains and records the rest; with `detach` it just goes on. */
  abandon(): void;
}

/** What a stream's client has asked for. */
export interface Watching {
  readonly isDetached: boolean;
  readonly hasStdin: boolean;
  /** It continues a command of which it hears that it was stopped. */
  readonly hasJobs: boolean;
}

export class Session implements ExecSession, RunWatcher {
  readonly #run: Run;
  readonly #watching: Watching;
  readonly #queue: SessionEvent[] = [];
  #queuedBytes = 0;
  #isAbandoned = false;
  #arrived = Promise.withResolvers<void>();
  #room: PromiseWithResolvers<void> | undefined;
  #failure: unknown;

  constructor(run: Run, watching: Watching) {
    this.#run = run;
    this.#watching = watching;
    run.done.then(
      (record) => this.#push({ type: 'exit', record, signal: run.end?.signal }),
      (error: unknown) => {
        this.#failure = error;
        this.#arrived.resolve();
      },
    );
  }

  get seq(): number {
    return this.#run.row.seq;
  }

  /** 0 where the sandbox was ended between the guest's answer and this session: only the exit follows. */
  get pid(): number {
    return this.#run.exec?.pid ?? 0;
  }

  output(stream: StreamName, data: Buffer): Promise<void> | undefined {
    if (this.#isAbandoned) return undefined;
    this.#queuedBytes += data.length;
    this.#push({ type: 'output', stream, data });
    if (this.#queuedBytes < limits.sessionBufferBytesMax) return undefined;
    this.#room ??= Promise.withResolvers<void>();
    return this.#room.promise;
  }

  stopped(): boolean {
    if (!this.#isAbandoned && this.#watching.hasJobs) this.#push({ type: 'stopped' });
    return this.#watching.hasJobs;
  }

  unblock(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }

  async *events(): AsyncIterableIterator<SessionEvent> {
    for (;;) {
      const event = this.#queue.shift();
      if (event === undefined) {
        if (this.#isAbandoned) return;
        if (this.#failure !== undefined) throw this.#failure;
        await this.#arrived.promise;
        continue;
      }
      if (this.#queue.length === 0 && this.#failure === undefined)
        this.#arrived = Promise.withResolvers<void>();
      yield event;
      if (event.type === 'exit') return;
      if (event.type === 'stopped') continue;
      this.#queuedBytes -= event.data.length;
      if (this.#queuedBytes < limits.sessionBufferBytesMax) this.unblock();
    }
  }

  writeStdin(chunk: Uint8Array): Promise<void> {
    return this.#run.exec?.writeStdin(chunk) ?? Promise.resolve();
  }

  endStdin(): void {
    // Of a command that was started without, PID 1 would take it for a breach.
    if (this.#watching.hasStdin) this.#run.exec?.endStdin();
  }

  resize(rows: number, columns: number): void {
    this.#run.exec?.resize(rows, columns);
  }

  signal(signo: number): void {
    this.#run.exec?.signal(signo);
  }

  abandon(): void {
    if (this.#isAbandoned) return;
    this.#isAbandoned = true;
    this.#run.unwatch(this);
    this.#queue.length = 0;
    this.#arrived.resolve();
    this.unblock();
    if (this.#run.end !== undefined) return;
    // A command that waits for its client's input would wait for ever.
    this.endStdin();
    if (!this.#watching.isDetached) this.#run.hangUp();
    // It may have been stopped, and nobody else knows.
    else if (this.#watching.hasJobs) this.signal(sigcont);
  }

  #push(event: SessionEvent): void {
    if (this.#isAbandoned) return;
    this.#queue.push(event);
    this.#arrived.resolve();
  }
}
