/**
 * DNS over TCP: queries behind their length, answered in whatever order the answers come.
 */
import type { Socket } from 'node:net';
import { egressLimits as limits } from '../limits.ts';
import type { TokenBucket } from '@squash/base/token-bucket';
import type { DnsClient, DnsServer } from './dns-server.ts';

/** Answers of one stream that its program has not read; then no more queries are. */
const unreadBytesMax = 131_072;

/** Resolves when the stream is over. `client.queries` is the same rate that holds for UDP. */
export async function serveDnsStream(
  socket: Socket,
  server: DnsServer,
  {
    client,
    monoMs,
  }: { readonly client: DnsClient & { readonly queries: TokenBucket }; readonly monoMs: () => number },
): Promise<void> {
  socket.setTimeout(limits.dnsStreamIdleMs, () => void socket.destroy());
  let waiting: Buffer = Buffer.alloc(0);
  let asked = 0;
  let hasEnded = false;
  const finish = (): void => {
    if (hasEnded && asked === 0 && !socket.writableEnded) socket.end();
  };
  const reply = (message: Uint8Array | undefined): void => {
    // Without an answer the program waits for nothing; a stream has no losses, so that is said by its end.
    if (message === undefined || socket.writableLength > unreadBytesMax) socket.destroy();
    if (message === undefined || socket.destroyed) return;
    socket.write(Buffer.concat([Uint8Array.of(message.length >>> 8, message.length & 0xff), message]));
  };
  socket.on('data', (chunk: Buffer) => {
    waiting = waiting.length === 0 ? chunk : Buffer.concat([waiting, chunk]);
    while (waiting.length >= 2 && !socket.destroyed) {
      const length = waiting.readUInt16BE(0);
      if (length > limits.queryBytesMax || !client.queries.take(monoMs())) return void socket.destroy();
      if (waiting.length < 2 + length) return;
      const answer = server.answer(client, waiting.subarray(2, 2 + length), 'stream');
      waiting = waiting.subarray(2 + length);
      asked += 1;
      void Promise.resolve(answer).then((message) => {
        asked -= 1;
        reply(message);
        finish();
      });
    }
  });
  socket.on('end', () => {
    hasEnded = true;
    finish();
  });
  socket.resume();
  await new Promise<void>((resolve) => void socket.once('close', () => resolve()));
}
