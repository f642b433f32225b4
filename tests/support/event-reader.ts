/** Server-sent events of a real daemon, one at a time. Disposing cuts the connection. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { TestDaemon } from './daemon.ts';

export interface ReadEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string | undefined;
}

export class EventReader implements Disposable {
  readonly #response: IncomingMessage;
  readonly #blocks: AsyncGenerator<ReadEvent>;

  private constructor(response: IncomingMessage) {
    this.#response = response;
    this.#blocks = blocks(response);
  }

  static async open(daemon: TestDaemon, path: string, lastEventId?: string): Promise<EventReader> {
    const headers = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
    const sent = request({ host: '127.0.0.1', port: daemon.port, path, headers, agent: false });
    sent.end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    if (response.statusCode !== 200) throw new Error(`${path}: ${response.statusCode}`);
    // A cut, also of the daemon's death, is an end here.
    response.on('error', () => undefined);
    return new EventReader(response);
  }

  /** The next one that has data; undefined at the end of the stream. */
  async next(): Promise<ReadEvent | undefined> {
    for (;;) {
      const { value, done } = await this.#blocks.next();
      if (done === true) return undefined;
      if (value.data !== undefined) return value;
    }
  }

  [Symbol.dispose](): void {
    this.#response.destroy();
  }
}

async function* blocks(response: IncomingMessage): AsyncGenerator<ReadEvent, void, void> {
  let text = '';
  response.setEncoding('utf8');
  try {
    for await (const part of response) {
      text += part as string;
      const whole = text.split('\n\n');
      text = whole.pop() ?? '';
      for (const block of whole)
        yield { id: field(block, 'id'), event: field(block, 'event'), data: field(block, 'data') };
    }
  } catch {
    // Cut short: what was read is all there is.
  }
}

function field(block: string, name: string): string | undefined {
  return new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
}
