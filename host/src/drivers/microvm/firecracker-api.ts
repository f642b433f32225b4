/**
 * Firecracker's REST API, over a stream to its socket. The VMM stands inside the boundary: who has broken out of the guest may have taken it
 * over, so an answer is bounded, and what it says is text for people.
 */
import { request } from 'node:http';
import { AppError } from '@squash/contract/errors';
import { streamOfVmm, type ToVmm, type VmmAsk } from './vmm-channel.ts';

const answerBytesMax = 65_536;
const faultCharactersMax = 300;
/** 1.16.0 breaks vsock after a restore, and what is older has no fixes any more. */
const oldest = [1, 16, 1] as const;

export class FirecrackerApi {
  readonly #connect: ToVmm;
  readonly #signal: AbortSignal;

  /** @param signal an answer is waited for as long: one comes within milliseconds, or when all of a memory is written */
  constructor(connect: ToVmm, signal: AbortSignal) {
    this.#connect = connect;
    this.#signal = signal;
  }

  /** The document of a success. @throws guest_failed with what Firecracker says */
  async send(asked: VmmAsk): Promise<unknown> {
    const { status, text } = await this.#exchange(asked);
    const what = `${asked.method} ${asked.path}`;
    if (status === 204) return undefined;
    const document = parsed(text);
    if (status === 200 && document !== undefined) return document;
    throw new AppError('guest_failed', `Firecracker answers ${status} to ${what}: ${faultOf(document)}`);
  }

  async #exchange({ method, path, body }: VmmAsk): Promise<{ status: number; text: string }> {
    const signal = this.#signal;
    const stream = await streamOfVmm(await this.#connect(signal), 'vmmControl', signal);
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
    // Node's client says nothing any more once the other side has answered with an upgrade.
    const late = (): void => reject(signal.reason);
    signal.addEventListener('abort', late);
    try {
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
            answer.destroy(new AppError('guest_failed', 'the answer is too long'));
        });
        answer.once('end', () => resolve({ status: answer.statusCode ?? 0, text }));
      });
      sent.end(bytes);
      return await promise;
    } catch (cause) {
      signal.throwIfAborted();
      throw new AppError('guest_failed', `Firecracker does not answer ${method} ${path}`, { cause });
    } finally {
      signal.removeEventListener('abort', late);
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

/** @throws vm_unavailable */
export function checkVersion(document: unknown): void {
  const isTold = typeof document === 'object' && document !== null && 'firecracker_version' in document;
  const text = isTold ? String(document.firecracker_version).slice(0, 40) : 'unknown';
  const found = /^(\d{1,4})\.(\d{1,4})\.(\d{1,4})/.exec(text)?.slice(1).map(Number) ?? [];
  const different = oldest.findIndex((part, at) => found[at] !== part);
  if (different < 0 || (found[different] ?? 0) > (oldest[different] ?? 0)) return;
  throw new AppError(
    'vm_unavailable',
    `The Firecracker of SQUASH_FIRECRACKER is of version ${JSON.stringify(text)}: get ${oldest.join('.')} or newer`,
  );
}
