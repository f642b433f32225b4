/**
 * Firecracker's REST API, over a stream to its socket. The VMM stands inside the boundary: who has broken out of the guest may have taken it
 * over, so an answer is bounded, and what it says is text for people.
 */
import { request } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';

/** Configurations of drives open files; an answer comes within milliseconds. */
const answerMsMax = 30_000;
const answerBytesMax = 65_536;
const faultCharactersMax = 300;

export interface ApiRequest {
  readonly method: 'GET' | 'PUT' | 'PATCH';
  readonly path: string;
  readonly body?: Readonly<Record<string, unknown>>;
}

export class FirecrackerApi {
  readonly #open: () => Promise<Duplex>;
  readonly #signal: AbortSignal;

  /** @param open a new stream to the socket */
  constructor(open: () => Promise<Duplex>, signal: AbortSignal) {
    this.#open = open;
    this.#signal = signal;
  }

  /** The document of a success. @throws launch_failed with what Firecracker says */
  async send(asked: ApiRequest): Promise<unknown> {
    const { status, text } = await this.#exchange(asked);
    const what = `${asked.method} ${asked.path}`;
    if (status === 204) return undefined;
    const document = parsed(text);
    if (status === 200 && document !== undefined) return document;
    throw new AppError('launch_failed', `Firecracker answers ${status} to ${what}: ${faultOf(document)}`);
  }

  async #exchange({ method, path, body }: ApiRequest): Promise<{ status: number; text: string }> {
    const stream = await this.#open();
    try {
      const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(answerMsMax)]);
      const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
      const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
      const headers = {
        host: 'localhost',
        accept: 'application/json',
        ...(bytes === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(bytes.length) }),
      };
      const sent = request({ createConnection: () => stream, method, path, headers, signal });
      sent.once('error', reject).once('response', (answer) => {
        let text = '';
        answer.setEncoding('utf8').once('error', reject);
        answer.on('data', (piece: string) => {
          text += piece;
          if (text.length > answerBytesMax)
            answer.destroy(new AppError('launch_failed', 'the answer is too long'));
        });
        answer.once('end', () => resolve({ status: answer.statusCode ?? 0, text }));
      });
      sent.end(bytes);
      return await promise;
    } catch (cause) {
      this.#signal.throwIfAborted();
      throw new AppError('launch_failed', `Firecracker does not answer ${method} ${path}`, { cause });
    } finally {
      stream.destroy();
    }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Whoever answers this is not Firecracker any more, or a newer one: the status tells.
    return undefined;
  }
}

function faultOf(document: unknown): string {
  const isFault = typeof document === 'object' && document !== null && 'fault_message' in document;
  const text = isFault ? String(document.fault_message) : 'no reason';
  return text.replaceAll(/[^\x20-\x7e]+/g, ' ').slice(0, faultCharactersMax);
}
