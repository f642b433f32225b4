/**
 * An answer about a sandbox whose id goes to another owner meanwhile: it is not given, and a stream ends before the first piece
 * that could be the other one's. Ids of a client's choice are free again when their sandbox is removed.
 */
import { NotSeen } from './caller.ts';
import type { Reply } from './reply.ts';

/** @param check throws `NotSeen` where the id is another owner's by now @throws sandbox_not_found */
export function whileSeen(reply: Reply, check: () => void): Reply {
  if (reply.type === 'stream') return { ...reply, pieces: seenPieces(reply.pieces, check) };
  // The bytes of an open file are those that were asked for.
  if (reply.type === 'file') return reply;
  try {
    passUnlessAnothers(check);
    return reply;
  } catch (error) {
    if (reply.type === 'bytes') reply.onEnd();
    throw error;
  }
}

/** What is there no more is nobody's, and what was read of it before may be told. */
function passUnlessAnothers(check: () => void): void {
  try {
    check();
  } catch (error) {
    if (error instanceof NotSeen) throw error;
  }
}

/** No generator: the end of one waits for the piece that is awaited. */
function seenPieces(pieces: AsyncIterable<string>, check: () => void): AsyncIterable<string> {
  return {
    [Symbol.asyncIterator]: () => {
      const iterator = pieces[Symbol.asyncIterator]();
      const end = async (): Promise<IteratorResult<string>> => {
        await iterator.return?.();
        return { done: true, value: undefined };
      };
      return {
        next: async () => {
          const piece = await iterator.next();
          try {
            passUnlessAnothers(check);
            return piece;
          } catch {
            // To the client it is a stream like any that ends with its sandbox.
            return await end();
          }
        },
        return: end,
      };
    },
  };
}
