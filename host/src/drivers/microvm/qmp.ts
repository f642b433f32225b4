/**
 * QEMU's own protocol: a JSON object a line, each request answered once, with events in between.
 *
 * Who has broken out of the guest may be QEMU: what comes is bounded in bytes and checked, and whoever asks bounds the time.
 */
import { addAbortSignal, type Duplex } from 'node:stream';
import { z } from 'zod';
import { AppError } from '@squash/contract/errors';

const lineBytesMax = 65_536;
/** Between a request and its answer. */
const eventsMax = 100;

const messageSchema = z.union([
  z.object({ return: z.unknown() }),
  z.object({ error: z.object({ desc: z.string().max(1024) }) }),
  z.object({ event: z.string() }),
  z.object({ QMP: z.object({}) }),
]);
type Message = z.infer<typeof messageSchema>;

export class Qmp {
  readonly #stream: Duplex;
  readonly #lines: AsyncGenerator<string, void>;

  private constructor(stream: Duplex) {
    this.#stream = stream;
    this.#lines = linesOf(stream);
  }

  /** The stream ends with the signal. @throws guest_failed */
  static async open(stream: Duplex, signal: AbortSignal): Promise<Qmp> {
    const qmp = new Qmp(addAbortSignal(signal, stream));
    if (!('QMP' in (await qmp.#next()))) throw breach('no greeting');
    await qmp.ask('qmp_capabilities');
    return qmp;
  }

  /** What it returns is not checked yet. @throws guest_failed with what QEMU says */
  async ask(execute: string, words: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    this.#stream.write(`${JSON.stringify({ execute, arguments: words })}\n`);
    for (let events = 0; events <= eventsMax; events++) {
      const message = await this.#next();
      if ('return' in message) return message.return;
      if ('error' in message) throw new AppError('guest_failed', `QEMU: ${execute}: ${message.error.desc}`);
      if (!('event' in message)) throw breach('a second greeting');
    }
    throw breach('too many events');
  }

  async #next(): Promise<Message> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw breach('no answer');
    try {
      return messageSchema.parse(JSON.parse(value));
    } catch {
      throw breach('what is none of its messages');
    }
  }
}

async function* linesOf(stream: Duplex): AsyncGenerator<string, void> {
  let rest = '';
  for await (const piece of stream as AsyncIterable<Buffer>) {
    const lines = (rest + piece.toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > lineBytesMax || lines.some((line) => line.length > lineBytesMax))
      throw breach('a line without an end');
    yield* lines;
  }
}

function breach(what: string): AppError {
  return new AppError('guest_failed', `QEMU sent ${what}`);
}
