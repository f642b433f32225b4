/**
 * Turns an iteration into a response body that is produced only as fast as the client reads.
 *
 * The queue holds nothing: `pull` is called when the socket has taken the last piece, so a client that stops
 * reading stops the iteration, and with it the database reads or the command behind it.
 */
import { Failure } from '@squash/base/failure';
import { limits } from '@squash/contract/limits';

export interface PieceStreamOptions {
  readonly pieces: AsyncIterable<string | Uint8Array>;
  readonly keepAlive?: string | undefined;
  /** A client that takes nothing for so long is given up. */
  readonly takenWithinMs?: number;
  /** Called once, at the end of the iteration or when the client goes away. */
  readonly onEnd: () => void;
}

export function pieceStream(options: PieceStreamOptions): ReadableStream<Uint8Array> {
  const iterator = options.pieces[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  let next: Promise<IteratorResult<string | Uint8Array>> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isEnded = false;
  const end = (): void => {
    if (isEnded) return;
    isEnded = true;
    clearTimeout(timer);
    options.onEnd();
  };
  const give = (
    controller: ReadableStreamDefaultController<Uint8Array>,
    piece: string | Uint8Array,
  ): void => {
    controller.enqueue(typeof piece === 'string' ? encoder.encode(piece) : piece);
    if (options.takenWithinMs === undefined) return;
    timer = setTimeout(() => {
      controller.error(new Failure('not_taken', 'nobody takes what is sent'));
      end();
      void iterator.return?.();
    }, options.takenWithinMs);
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        clearTimeout(timer);
        try {
          next ??= iterator.next();
          const result = await orKeepAlive(next, options.keepAlive);
          if (typeof result === 'string') {
            give(controller, result);
            return;
          }
          next = undefined;
          if (result.done === true) {
            end();
            controller.close();
            return;
          }
          give(controller, result.value);
        } catch (error) {
          end();
          // The status is sent already: a connection cut short is how a client learns that this is not all.
          controller.error(error);
        }
      },
      async cancel() {
        end();
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/** The next piece, or the keep-alive text when that takes long; the piece is then still awaited. */
async function orKeepAlive(
  next: Promise<IteratorResult<string | Uint8Array>>,
  keepAlive: string | undefined,
): Promise<IteratorResult<string | Uint8Array> | string> {
  if (keepAlive === undefined) return await next;
  const { promise, resolve } = Promise.withResolvers<string>();
  const timer = setTimeout(resolve, limits.eventKeepAliveMs, keepAlive);
  try {
    return await Promise.race([next, promise]);
  } finally {
    clearTimeout(timer);
  }
}
