/** What is sent to a client, no faster than it takes it, and what becomes of a body that nobody has read. */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** Of a body that nobody reads, behind its answer; where it is longer than the first of these the connection ends with that answer. */
const unread = { keptBytesMax: 262_144, bytesMax: 67_108_864, ms: 500 } as const;

/** Of answers that are sent whole, and of all together that their clients have not taken. */
const untaken = { bytesMin: 65_536, bytesMax: 134_217_728 } as const;

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A stream is cancelled where the client goes away; one that fails cuts the connection, for its status is sent already. */
  readonly body: string | ReadableStream<Uint8Array> | null;
}

/** Resolves when nothing is left to send. */
export async function sendAnswer(
  { status, headers, body }: Answer,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  if (typeof body === 'string') {
    const bytes = Buffer.byteLength(body);
    const isLast = leavesMuch(incoming);
    const connection = isLast ? { connection: 'close' } : {};
    outgoing.writeHead(status, { ...headers, ...connection, 'content-length': bytes });
    if (isLast) {
      // Closed with bytes that nobody has read, the kernel resets the connection, and its client may lose the answer.
      outgoing.write(body);
      await dropBody(incoming);
      outgoing.end();
      return;
    }
    outgoing.once('close', () => void dropBody(incoming));
    outgoing.end(body);
    if (bytes > untaken.bytesMin) makeRoom(outgoing, bytes);
    return;
  }
  outgoing.once('close', () => void dropBody(incoming));
  outgoing.writeHead(status, { ...headers });
  if (body === null) outgoing.end();
  else await sendStream(body, outgoing);
}

/** Oldest first. */
const held = new Map<ServerResponse, number>();
let heldBytes = 0;

/** Whoever takes nothing would fill the memory, one answer for each of his connections: who has waited longest is cut off for the next. */
function makeRoom(outgoing: ServerResponse, bytes: number): void {
  const release = (one: ServerResponse, itsBytes: number): void => {
    if (held.delete(one)) heldBytes -= itsBytes;
  };
  held.set(outgoing, bytes);
  heldBytes += bytes;
  outgoing.once('close', () => release(outgoing, bytes));
  for (const [oldest, itsBytes] of held) {
    if (heldBytes <= untaken.bytesMax || oldest === outgoing) return;
    release(oldest, itsBytes);
    oldest.destroy();
  }
}

async function sendStream(body: ReadableStream<Uint8Array>, outgoing: ServerResponse): Promise<void> {
  const reader = body.getReader();
  const cancel = (): void => {
    // How its maker ends is the maker's own.
    reader.cancel().catch(() => undefined);
  };
  if (outgoing.destroyed) {
    cancel();
    return;
  }
  outgoing.once('close', cancel);
  // Also while the client takes nothing: then its maker gives it up.
  reader.closed.catch(() => outgoing.destroy());
  outgoing.flushHeaders();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!outgoing.write(value)) await hasRoom(outgoing);
    }
    outgoing.end();
  } catch {
    outgoing.destroy();
  }
}

/** Or nobody is there any more. */
async function hasRoom(outgoing: ServerResponse): Promise<void> {
  if (outgoing.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  outgoing.once('drain', resolve).once('close', resolve);
  await promise;
  outgoing.off('drain', resolve).off('close', resolve);
}

/** A client that took the connection for open would lose its next request, where the rest of this one is cut off. */
function leavesMuch(incoming: IncomingMessage): boolean {
  if (incoming.complete || incoming.destroyed) return false;
  const { 'transfer-encoding': encoding, 'content-length': bytes = 0 } = incoming.headers;
  return encoding !== undefined || Number(bytes) > unread.keptBytesMax;
}

/**
 * What a client still sends of a body behind its answer is read and thrown away, so that it sees the answer; one that sends too much, or
 * for too long, is cut off. Resolves when nothing more comes.
 */
async function dropBody(incoming: IncomingMessage): Promise<void> {
  if (incoming.complete || incoming.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  let bytes = 0;
  const cut = (): void => {
    incoming.socket.destroySoon();
    resolve();
  };
  const count = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes > unread.bytesMax) cut();
  };
  const timer = setTimeout(cut, unread.ms).unref();
  incoming.on('data', count).once('end', resolve).once('error', resolve).once('close', resolve).resume();
  await promise;
  clearTimeout(timer);
  incoming.off('data', count);
}
