/**
 * One attached command: checks every frame against what PID 1 may send now, and hands out events.
 *
 * Frames are read as they come, whether or not anybody iterates: acknowledgments for stdin arrive between output,
 * and a caller that first writes all its stdin must not wait for itself. Memory stays bounded all the same, since
 * more than the unacknowledged window per stream is a breach.
 */
import { Buffer } from 'node:buffer';
import { AppError } from '@squash/contract/errors';
import { encodeFields, type Field, type Frame, FrameError } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import { guestWindowBytes } from '@squash/contract/guest/frames';
import { breach, type FrameConnection } from './frame-connection.ts';
import type { GuestExec, GuestExecEvent, GuestOutcome } from './guest.ts';
import { StdinWindow } from './stdin-window.ts';

/** An acknowledgment per quarter window: the guest never waits for one, and small output costs none at all. */
const ackStepBytes = guestWindowBytes / 4;

/** Each is an event, and a PID 1 that is hostile could send them without end: more are not told. A person presses Ctrl-Z less often. */
const stopsMax = 10_000;

export interface Started {
  readonly execId: string;
  readonly pid: number;
  readonly stdout: number;
  readonly stderr: number;
  /** Stdin that PID 1 has received, and of it what the command took. */
  readonly stdinReceived: number;
  readonly stdinTaken: number;
}

interface StreamState {
  /** Absolute offset behind the last byte received. */
  received: number;
  /** What PID 1 was told: it may send up to a window more. */
  acknowledged: number;
  /** What the caller has stored. */
  stored: number;
}

export class ExecSession implements GuestExec {
  readonly execId: string;
  readonly pid: number;
  readonly stdinReceived: number;
  readonly #connection: FrameConnection;
  readonly #release: (connection: FrameConnection) => void;
  readonly #streams: { readonly stdout: StreamState; readonly stderr: StreamState };
  readonly #stdin: StdinWindow;
  readonly #queue: GuestExecEvent[] = [];
  #stopsLeft = stopsMax;
  #isOver = false;
  #isReleased = false;
  #failure: unknown;
  #wake: (() => void) | undefined;
  #iterator: AsyncIterableIterator<GuestExecEvent> | undefined;

  /** @param release sends the last frame, after which the connection is not this command's any more */
  constructor(connection: FrameConnection, started: Started, release: (connection: FrameConnection) => void) {
    this.#connection = connection;
    this.#release = release;
    this.execId = started.execId;
    this.pid = started.pid;
    this.stdinReceived = started.stdinReceived;
    this.#streams = { stdout: streamFrom(started.stdout), stderr: streamFrom(started.stderr) };
    this.#stdin = new StdinWindow(connection, { sent: started.stdinReceived, taken: started.stdinTaken });
    void this.#read();
  }

  events(): AsyncIterableIterator<GuestExecEvent> {
    this.#iterator ??= this.#iterate();
    return this.#iterator;
  }

  writeStdin(chunk: Uint8Array): Promise<void> {
    return this.#stdin.write(chunk);
  }

  endStdin(): void {
    this.#stdin.end();
  }

  resize(rows: number, columns: number): void {
    this.#post(
      encodeFields('resize', [
        ['rows', rows],
        ['columns', columns],
      ]),
    );
  }

  signal(signo: number): void {
    this.#post(encodeFields('signal', [['signo', signo]]));
  }

  ack(stdoutOffset: number, stderrOffset: number): void {
    const { stdout, stderr } = this.#streams;
    stdout.stored = Math.max(stdout.stored, Math.min(stdoutOffset, stdout.received));
    stderr.stored = Math.max(stderr.stored, Math.min(stderrOffset, stderr.received));
    const isDue = [stdout, stderr].some(({ stored, acknowledged }) => stored - acknowledged >= ackStepBytes);
    if (!isDue) return;
    stdout.acknowledged = stdout.stored;
    stderr.acknowledged = stderr.stored;
    this.#post(
      encodeFields('ack', [
        ['stdoutOffset', stdout.stored],
        ['stderrOffset', stderr.stored],
      ]),
    );
  }

  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#release(this.#connection);
  }

  close(): void {
    if (this.#isReleased) return;
    // Of a command that ended in order nobody asks why; an error's stack trace would be collected for every exec.
    if (!this.#isOver) {
      this.#stop(new AppError('guest_failed', 'The daemon closed its connection to the command.'));
    }
    this.#connection.close();
  }

  /** What is sent to a command that has ended means nothing to anybody. */
  #post(frame: Uint8Array): void {
    if (!this.#isOver) this.#connection.post(frame);
  }

  async *#iterate(): AsyncGenerator<GuestExecEvent, void, void> {
    for (;;) {
      const event = this.#queue.shift();
      if (event !== undefined) {
        yield event;
        if (event.type === 'exit') return;
        continue;
      }
      if (this.#failure !== undefined) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async #read(): Promise<void> {
    try {
      while (!this.#isOver) this.#take(await this.#connection.next());
    } catch (error) {
      const failure = error instanceof FrameError ? breach(error.message, error) : error;
      this.#connection.fail(failure);
      this.#stop(failure);
    }
  }

  #stop(failure: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#failure = failure;
    this.#stdin.stop(failure);
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  #take(frame: Frame): void {
    if (frame.type === 'stdout' || frame.type === 'stderr') this.#takeOutput(frame.type, frame.data);
    else if (frame.type === 'ack') this.#stdin.acknowledge(frame.fields);
    else if (frame.type === 'stopped') this.#takeStop(frame.fields);
    else if (frame.type === 'exit') this.#takeExit(parseOutcome(frame.fields));
    else throw breach(`a "${frame.type}" frame does not belong to a running command`);
  }

  #takeOutput(name: 'stdout' | 'stderr', data: Uint8Array): void {
    const stream = this.#streams[name];
    if (data.length === 0) throw breach(`an empty "${name}" frame`);
    stream.received += data.length;
    if (stream.received - stream.acknowledged > guestWindowBytes) {
      throw breach(`more ${name} than the ${guestWindowBytes} bytes that may be unacknowledged`);
    }
    this.#queue.push({
      type: 'output',
      stream: name,
      data: Buffer.from(data.buffer, data.byteOffset, data.length),
    });
    this.#notify();
  }

  #takeStop(fields: readonly Field[]): void {
    new FieldReader(fields).done();
    if (this.#stopsLeft === 0) return;
    this.#stopsLeft -= 1;
    this.#queue.push({ type: 'stopped' });
    this.#notify();
  }

  #takeExit(outcome: GuestOutcome): void {
    const { stdout, stderr } = this.#streams;
    if (outcome.stdoutBytes !== stdout.received || outcome.stderrBytes !== stderr.received) {
      throw breach('the totals of the exit are not what was sent');
    }
    this.#isOver = true;
    this.#stdin.stop(undefined);
    this.#queue.push({ type: 'exit', outcome });
    this.#notify();
  }
}

const streamFrom = (offset: number): StreamState => ({
  received: offset,
  acknowledged: offset,
  stored: offset,
});

function parseOutcome(fields: ConstructorParameters<typeof FieldReader>[0]): GuestOutcome {
  const reader = new FieldReader(fields);
  const exitCode = reader.optionalInteger('exitCode', { max: 255 });
  const signal = reader.optionalInteger('exitSignal', { min: 1, max: 64 });
  if ((exitCode === undefined) === (signal === undefined))
    throw breach('an exit has either a code or a signal');
  const outcome = {
    exitCode,
    signal,
    timedOut: reader.integer('timedOut', { max: 1 }) === 1,
    stdoutBytes: reader.integer('stdoutOffset'),
    stderrBytes: reader.integer('stderrOffset'),
    userUs: reader.integer('userUs'),
    systemUs: reader.integer('systemUs'),
    rssMaxKib: reader.integer('rssMaxKib'),
    oomKills: reader.optionalInteger('oomKills') ?? 0,
  };
  reader.done();
  return outcome;
}
