/**
 * The host's end of one worker: frames out, checked frames in, and one end. A worker that breaks the protocol is ended; what it said
 * before counts, what it says after does not.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CodemodeError } from '../errors.ts';
import type { Exit, PlacedWorker } from '../places/place.ts';
import type { EngineLimits, EngineName, HostFrame } from '../protocol/frames.ts';
import { encodeFrame, FrameReader, protocolVersion } from '../protocol/framing.ts';
import { type CheckedFrame, workerFrameSchema } from '../protocol/worker-schema.ts';

export type PeerEvent =
  /** The worker has read what it was sent. */
  | { readonly type: 'drained' }
  | { readonly type: 'frame'; readonly frame: CheckedFrame }
  | { readonly type: 'gone'; readonly reason: string; readonly outOfMemory: boolean };

/** What everybody else may be held up by at a time, beside what one frame takes. */
const turnMsMax = 10;
/** Before a run a worker says that it is ready, or why it is not. */
const idleFrameBytesMax = 131_072;

export class Peer {
  readonly placed: PlacedWorker;
  /** Runs it has begun. */
  runs = 0;
  #listener: ((event: PeerEvent) => void) | undefined;
  #gone: Extract<PeerEvent, { readonly type: 'gone' }> | undefined;
  #fault: string | undefined;
  #ready = Promise.withResolvers<void>();
  #isReady = false;
  readonly #reader = new FrameReader();
  readonly #unhandled: unknown[] = [];
  /** While others have their turn. */
  #turn: Promise<void> | undefined;
  readonly exited: Promise<Exit>;
  engine = '';

  constructor(placed: PlacedWorker, hello: { readonly engine: EngineName; readonly limits: EngineLimits }) {
    this.placed = placed;
    this.exited = placed.exited.then(async (exit) => {
      // What it said before it ended counts.
      while (this.#turn !== undefined) await this.#turn;
      return this.#onExit(exit);
    });
    // A worker that dies while a frame is on its way: the exit tells, the pipe's error adds nothing.
    placed.input.on('error', () => {});
    placed.output.on('error', () => {});
    this.#reader.bytesMax = idleFrameBytesMax;
    placed.output.on('data', (bytes: Buffer) => this.#onBytes(bytes));
    placed.input.on('drain', () => this.#notify({ type: 'drained' }));
    this.#ready.promise.catch(() => {});
    this.send({ t: 'hello', v: protocolVersion, ...hello });
  }

  /** Settles when a realm waits: after the start, and after each run that left the worker fit. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  get isGone(): boolean {
    return this.#gone !== undefined;
  }

  send(frame: HostFrame): void {
    if (this.#gone === undefined && this.#fault === undefined) this.placed.input.write(encodeFrame(frame));
  }

  /** Sent, and not read yet. */
  get unreadBytes(): number {
    return this.placed.input.writableLength;
  }

  /**
   * Takes the peer for one run; the next `ready` is the one after it.
   * @param frameBytesMax what this run's limits let a frame be: parsed, hostile JSON is many times its length
   */
  begin(listener: (event: PeerEvent) => void, frameBytesMax: number): void {
    this.runs += 1;
    this.#reader.bytesMax = frameBytesMax;
    this.#listener = listener;
    this.#ready = Promise.withResolvers();
    this.#isReady = false;
    this.#ready.promise.catch(() => {});
    this.placed.hold(true);
    if (this.#gone !== undefined) this.#notify(this.#gone);
  }

  /** From now on: for what has been asked of the worker in its run. */
  allowFrame(bytesMax: number): void {
    this.#reader.bytesMax = bytesMax;
  }

  /** Still held: somebody may be waiting for the realm it boots now, and a program that awaits a run must not end before it. */
  end(): void {
    this.#listener = undefined;
    this.#reader.bytesMax = idleFrameBytesMax;
  }

  async kill(): Promise<void> {
    this.placed.hold(true);
    this.placed.kill();
    await this.exited;
  }

  #onBytes(bytes: Buffer): void {
    if (this.#fault !== undefined) return;
    try {
      for (const raw of this.#reader.push(bytes)) this.#unhandled.push(raw);
      if (this.#turn === undefined) this.#handle();
    } catch (failure) {
      this.#breakBy(failure);
    }
  }

  /** One piece of bytes may hold a thousand frames, each with work for this thread. @throws where one is against the protocol */
  #handle(): void {
    const began = performance.now();
    while (this.#unhandled.length > 0) {
      this.#onFrame(workerFrameSchema.parse(this.#unhandled.shift()));
      if (performance.now() - began < turnMsMax || this.#unhandled.length === 0) continue;
      this.placed.output.pause();
      this.#turn = nextTurn().then(() => this.#goOn());
      return;
    }
  }

  #goOn(): void {
    this.#turn = undefined;
    this.placed.output.resume();
    try {
      this.#handle();
    } catch (failure) {
      this.#breakBy(failure);
    }
  }

  #breakBy(failure: unknown): void {
    this.#break(`it broke the protocol: ${failure instanceof Error ? failure.message.slice(0, 200) : ''}`);
  }

  #onFrame(frame: CheckedFrame): void {
    if (this.#fault !== undefined) return;
    if (frame.t === 'fatal') {
      this.#break(frame.message);
      return;
    }
    // Beside its runs it has one thing to say: nobody counts what reading more than that costs.
    if (frame.t === 'ready' ? this.#isReady : this.#listener === undefined) {
      this.#break('it spoke without being asked');
      return;
    }
    if (frame.t !== 'ready') {
      this.#notify({ type: 'frame', frame });
      return;
    }
    this.#isReady = true;
    this.engine = frame.engine;
    if (frame.v === protocolVersion) this.#ready.resolve();
    else this.#break(`it speaks version ${frame.v} of the protocol, not ${protocolVersion}`);
  }

  #break(reason: string): void {
    this.#fault ??= reason;
    this.#unhandled.length = 0;
    this.placed.kill();
  }

  #onExit(exit: Exit): Exit {
    const reason = this.#fault ?? `it ended by ${exit.signal ?? `exit code ${exit.code}`}`;
    this.#gone = { type: 'gone', reason, outOfMemory: exit.outOfMemory };
    const detail = this.placed.diagnostics().trim().split('\n').slice(-4).join(' ').slice(0, 600);
    this.#ready.reject(
      new CodemodeError(
        'unavailable',
        `the engine did not start: ${reason}${detail === '' ? '' : `; ${detail}`}`,
      ),
    );
    this.#notify(this.#gone);
    return exit;
  }

  #notify(event: PeerEvent): void {
    this.#listener?.(event);
  }
}
