/**
 * A WebSocket client (RFC 6455) for the exec stream: text and binary messages, ping, close; no extensions.
 *
 * Reading is pulled: while the caller does not ask for the next message nothing is taken from the socket, the kernel's
 * buffers fill and the command in the sandbox stalls. `send` resolves when the kernel took the bytes, which
 * is how a slow command stalls our standard input.
 *
 * `node:crypto` is not used, because loading it costs 7 ms: that the server means what it says is shown by its naming our
 * subprotocol, which no cache and no other server does, instead of by the hash of the key; and masks need not be
 * secret, because they protect proxies from web pages that choose the bytes, and here it is the user who does.
 */
import type { Socket } from 'node:net';
import { Failure } from '../failure.ts';
import type { Address } from './address.ts';
import type { ByteSource } from './byte-source.ts';
import { type HttpResponse, sendRequest, writeAll } from './http.ts';

/** The server sends output in chunks of at most 64 KiB and events of some hundred bytes. */
const messageBytesMax = 1_048_576;
const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
const closeNormal = 1000;

export type SocketMessage =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'binary'; readonly data: Buffer };

export interface WebSocketRequest {
  readonly path: string;
  readonly subprotocol: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The connection, or the answer of a server that refused the upgrade. */
export type WebSocketOutcome =
  | { readonly type: 'open'; readonly connection: WebSocketConnection }
  | { readonly type: 'refused'; readonly response: HttpResponse };

export async function openWebSocket(address: Address, request: WebSocketRequest): Promise<WebSocketOutcome> {
  const response = await sendRequest(address, {
    method: 'GET',
    path: request.path,
    headers: {
      ...request.headers,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
      'sec-websocket-protocol': request.subprotocol,
    },
  });
  if (response.status !== 101) return { type: 'refused', response };
  if (response.headers.get('sec-websocket-protocol') !== request.subprotocol) {
    response.socket.destroy();
    throw new Failure('no_websocket', 'what answers there does not speak WebSocket');
  }
  return { type: 'open', connection: new WebSocketConnection(response.socket, response.source) };
}

export class WebSocketConnection {
  readonly #socket: Socket;
  readonly #source: ByteSource;
  #closed = false;

  constructor(socket: Socket, source: ByteSource) {
    this.#socket = socket;
    this.#source = source;
  }

  async sendText(text: string): Promise<void> {
    await this.#send(opcodes.text, Buffer.from(text));
  }

  async sendBinary(data: Uint8Array): Promise<void> {
    await this.#send(opcodes.binary, data);
  }

  /** Messages until the server closes. Ends without an error when it closes normally. */
  async *messages(): AsyncGenerator<SocketMessage, void, void> {
    let parts: Buffer[] = [];
    let opcode: number = opcodes.continuation;
    for (;;) {
      const frame = await this.#readFrame();
      if (frame === undefined) return;
      if (frame.opcode === opcodes.ping) {
        await this.#send(opcodes.pong, frame.payload);
        continue;
      }
      if (frame.opcode === opcodes.pong) continue;
      if (frame.opcode === opcodes.close) {
        this.close();
        checkCloseReason(frame.payload);
        return;
      }
      if (frame.opcode !== opcodes.continuation) opcode = frame.opcode;
      parts.push(frame.payload);
      if (sumBytes(parts) > messageBytesMax)
        throw new Failure('too_long', 'the daemon sent a message that is too long');
      if (!frame.final) continue;
      const data = parts.length === 1 ? frame.payload : Buffer.concat(parts);
      parts = [];
      yield opcode === opcodes.text
        ? { type: 'text', text: data.toString('utf8') }
        : { type: 'binary', data };
    }
  }

  /** Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    const code = Buffer.alloc(2);
    code.writeUInt16BE(closeNormal);
    this.#socket.end(encodeFrame(opcodes.close, code));
    // The server's own close is not waited for: it costs the caller the time of one more round.
    this.#socket.unref();
  }

  /** Drops the connection at once: the daemon sees the client gone. */
  destroy(): void {
    this.#closed = true;
    this.#socket.destroy();
  }

  async #send(opcode: number, data: Uint8Array): Promise<void> {
    // After the close frame nothing may follow; what would be sent has no reader any more.
    if (this.#closed) return;
    await writeAll(this.#socket, encodeFrame(opcode, data));
  }

  async #readFrame(): Promise<
    { readonly final: boolean; readonly opcode: number; readonly payload: Buffer } | undefined
  > {
    const first = await this.#source.chunk(1);
    if (first === undefined) {
      if (this.#closed) return undefined;
      throw new Failure('hung_up', 'the daemon closed the connection before the command ended');
    }
    const start = first[0] ?? 0;
    const second = (await this.#source.exactly(1))[0] ?? 0;
    if ((start & 0x70) !== 0 || (second & 0x80) !== 0)
      throw new Failure('malformed', 'the daemon sent a malformed frame');
    let length = second & 0x7f;
    if (length === 126) length = (await this.#source.exactly(2)).readUInt16BE();
    else if (length === 127) length = Number((await this.#source.exactly(8)).readBigUInt64BE());
    if (length > messageBytesMax) throw new Failure('too_long', 'the daemon sent a message that is too long');
    return { final: (start & 0x80) !== 0, opcode: start & 0x0f, payload: await this.#source.exactly(length) };
  }
}

function randomBytes(bytes: number): Buffer {
  return Buffer.from(Array.from({ length: bytes }, () => Math.floor(Math.random() * 256)));
}

function sumBytes(parts: readonly Buffer[]): number {
  return parts.reduce((sum, part) => sum + part.length, 0);
}

function checkCloseReason(payload: Buffer): void {
  const code = payload.length >= 2 ? payload.readUInt16BE() : closeNormal;
  if (code === closeNormal) return;
  const reason = payload.subarray(2).toString('utf8');
  throw new Failure(
    'stream_ended',
    `the daemon ended the stream (${code}${reason === '' ? '' : `: ${reason}`})`,
  );
}

/** One final, masked frame: servers refuse others. */
function encodeFrame(opcode: number, data: Uint8Array): Buffer {
  const extra = data.length < 126 ? 0 : data.length < 65_536 ? 2 : 8;
  const frame = Buffer.allocUnsafe(6 + extra + data.length);
  frame[0] = 0x80 | opcode;
  frame[1] = 0x80 | (extra === 0 ? data.length : extra === 2 ? 126 : 127);
  if (extra === 2) frame.writeUInt16BE(data.length, 2);
  if (extra === 8) frame.writeBigUInt64BE(BigInt(data.length), 2);
  const mask = randomBytes(4);
  frame.set(mask, 2 + extra);
  const start = 6 + extra;
  for (let index = 0; index < data.length; index += 1) {
    frame[start + index] = (data[index] ?? 0) ^ (mask[index & 3] ?? 0);
  }
  return frame;
}
