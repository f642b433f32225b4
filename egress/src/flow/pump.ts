/**
 * Moves a body from one stream to another at the speed of the slower one, through a filter where there is one.
 *
 * Not `stream.pipeline`: that destroys both ends when something fails, and here the program's end still has to hear why.
 */
import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { egressLimits as limits } from '../limits.ts';

const nothing = Buffer.alloc(0);

/** Told the size of each piece that came. What it returns is waited for before the next one is taken. */
export type OnBytes = (size: number) => Promise<void> | undefined;

/** What passes is changed by it. */
export interface ByteFilter {
  /** What may go on of all that came so far; it may be empty. */
  push(piece: Buffer): Buffer;
  /** What need not be held any longer: it came before the last `recentBytes` of the stream. */
  settle?(recentBytes: number): Buffer;
  /** The rest. The filter is then as new. */
  end(): Buffer;
}

export interface PumpOptions {
  readonly filter?: ByteFilter | undefined;
  readonly onBytes?: OnBytes;
}

/** An end that closed before the body's end. */
export class BrokenOff extends Error {
  readonly side: 'source' | 'sink';

  constructor(side: 'source' | 'sink', cause?: unknown) {
    super(`the ${side} ended early`, { cause });
    this.name = 'BrokenOff';
    this.side = side;
  }
}

/**
 * Resolves when the source has ended and everything is written; the sink is left open.
 * @throws BrokenOff, or what the filter throws. Both ends are left as they are
 */
export function pump(source: Readable, sink: Writable, { filter, onBytes }: PumpOptions = {}): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let isHeld = false;
  const write = (piece: Buffer): void => {
    if (piece.length > 0 && !sink.write(piece)) source.pause();
  };
  const hold = (turn: Promise<void>): void => {
    isHeld = true;
    source.pause();
    void turn.then(() => {
      isHeld = false;
      if (!hasSettled && !sink.writableNeedDrain) source.resume();
    });
  };
  const attempt = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      settle(error);
    }
  };
  const aging = new Aging(() => {
    // A source that waits for the sink is not silent: what it holds back would tell how far the program reads.
    if (source.isPaused()) return false;
    attempt(() => write(filter?.settle?.(aging.recentBytes) ?? nothing));
    return true;
  });
  const onData = (piece: Buffer): void =>
    attempt(() => {
      const turn = onBytes?.(piece.length);
      if (turn !== undefined) hold(turn);
      write(filter === undefined ? piece : filter.push(piece));
      if (filter?.settle !== undefined) aging.add(piece.length);
    });
  const onEnd = (): void =>
    attempt(() => {
      if (filter !== undefined) write(filter.end());
      settle();
    });
  const onDrain = (): void => {
    if (!isHeld) source.resume();
  };
  const sourceGone = (error?: unknown): void => settle(new BrokenOff('source', error));
  const sinkGone = (error?: unknown): void => settle(new BrokenOff('sink', error));
  let hasSettled = false;
  const settle = (error?: unknown): void => {
    hasSettled = true;
    aging.end();
    source.off('data', onData).off('end', onEnd).off('error', sourceGone).off('close', sourceGone);
    sink.off('drain', onDrain).off('error', sinkGone).off('close', sinkGone);
    if (error === undefined) return resolve();
    source.pause();
    reject(error);
  };
  if (source.readableEnded) return Promise.resolve();
  if (source.destroyed) return Promise.reject(new BrokenOff('source', source.errored));
  if (sink.destroyed) return Promise.reject(new BrokenOff('sink', sink.errored));
  source.on('end', onEnd).on('error', sourceGone).on('close', sourceGone).on('data', onData);
  sink.on('drain', onDrain).on('error', sinkGone).on('close', sinkGone);
  source.resume();
  return promise;
}

/** Ends the sink behind it. One that breaks off is told by its own `error` and `close`. */
export function passOn(source: Readable, sink: Writable, onBytes: OnBytes): void {
  void pump(source, sink, { onBytes }).then(
    () => void sink.end(),
    () => undefined,
  );
}

/** When the program's side is closed. What it has said to its end is still on its way. */
export function leaveServer(server: Socket, program: Socket): void {
  if (!program.readableEnded) return void server.destroy();
  server.setTimeout(limits.carriedRestMs, () => server.destroy());
  server.destroySoon();
}

/** How many of the last bytes came within `quietMs`, to a quarter of it. No timer runs where nothing waits. */
class Aging {
  readonly #onTick: () => boolean;
  /** By quarters, the present one first. */
  #came = [0, 0, 0];
  #timer: NodeJS.Timeout | undefined;

  /** @param onTick false: this moment does not count */
  constructor(onTick: () => boolean) {
    this.#onTick = onTick;
  }

  get recentBytes(): number {
    return this.#came.reduce((sum, bytes) => sum + bytes, 0);
  }

  add(bytes: number): void {
    this.#came[0] = (this.#came[0] ?? 0) + bytes;
    this.#timer ??= setTimeout(() => this.#tick(), limits.quietMs / 4);
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #tick(): void {
    this.#timer = undefined;
    const isLast = this.recentBytes === 0;
    if (!this.#onTick()) return this.add(0);
    if (isLast) return;
    this.#came = [0, ...this.#came.slice(0, 2)];
    this.add(0);
  }
}
