/** One request and its answer, as both transports (`http-transport.ts`, `fetch-transport.ts`) carry them. */
import { type SquashError, Unreachable } from './errors.ts';

/** What is sent as it is. A stream is sent as it comes, where the runtime can do that. */
export type Upload = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface WireRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>;
  /** The longest silence that is borne, while the body goes out and until the answer begins. Milliseconds. */
  readonly silenceMsMax: number;
  readonly signal?: AbortSignal | undefined;
}

export interface WireAnswer {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  /** May be read once; to stop before its end lets the connection go. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Lets the connection go, whatever is still to come. */
  readonly discard: () => void;
}

export interface Transport {
  /** @throws SquashError where there is no answer */
  readonly send: (request: WireRequest) => Promise<WireAnswer>;
  /** Ends connections that nothing waits for. */
  readonly close: () => void;
}

export const connectMsMax = 10_000;

/** Ends what has made no progress for too long. */
export class Patience {
  readonly #msMax: number;
  readonly #onEnd: () => void;
  #timer: ReturnType<typeof setTimeout>;

  constructor(msMax: number, onEnd: () => void) {
    this.#msMax = Math.min(msMax, timerMsMax);
    this.#onEnd = onEnd;
    this.#timer = setTimeout(onEnd, this.#msMax);
  }

  touch(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onEnd, this.#msMax);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** Longer timers go off at once. */
const timerMsMax = 2_147_483_647;

/** The parts of a body, each within the longest silence. How long the reader takes between them does not count. */
export async function* patiently(
  parts: AsyncIterable<Uint8Array>,
  msMax: number,
  end: (error: SquashError) => void,
): AsyncGenerator<Uint8Array, void, void> {
  const iterator = parts[Symbol.asyncIterator]();
  let isOver = false;
  try {
    for (;;) {
      const patience = new Patience(msMax, () => end(silent(msMax)));
      const next = await iterator.next().finally(() => patience.stop());
      isOver = next.done === true;
      if (next.done === true) return;
      yield next.value;
    }
  } catch (error) {
    isOver = true;
    throw error;
  } finally {
    if (!isOver) await iterator.return?.();
  }
}

export function silent(msMax: number): Unreachable {
  const message = `the daemon has sent nothing for ${msMax} ms`;
  return new Unreachable('silent', { message, remedy: 'Ask again, or raise `timeout_ms`' });
}

/** Small enough that each of them is progress. */
const pieceBytes = 262_144;

/** A long body goes out in pieces, so that a slow network is told from one that stands still. */
export function inPieces(
  body: Uint8Array | AsyncIterable<Uint8Array>,
): Uint8Array | AsyncIterable<Uint8Array> {
  if (!(body instanceof Uint8Array) || body.length <= pieceBytes) return body;
  return pieces(body);
}

async function* pieces(body: Uint8Array): AsyncGenerator<Uint8Array, void, void> {
  for (let at = 0; at < body.length; at += pieceBytes) yield body.subarray(at, at + pieceBytes);
}
