/** Takes webhooks on loopback, and answers as a test says. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

export interface Received {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  /** What the test answered; undefined: nothing. */
  readonly status: number | undefined;
}

/** The status to answer with; undefined: no answer at all. */
export type Answering = (received: { readonly path: string; readonly count: number }) => number | undefined;

export class WebhookReceiver implements AsyncDisposable {
  readonly all: Received[] = [];
  answering: Answering;
  readonly #server: Server;
  #port = 0;

  private constructor(answering: Answering) {
    this.answering = answering;
    this.#server = createServer((request, response) => void this.#take(request, response));
  }

  static async listen(answering: Answering = () => 204, port = 0): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver(answering);
    receiver.#server.listen(port, '127.0.0.1');
    await once(receiver.#server, 'listening');
    const address = receiver.#server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    receiver.#port = address.port;
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get port(): number {
    return this.#port;
  }

  /** Types of the events that were taken, in order. */
  get taken(): readonly string[] {
    return this.all
      .filter(({ status }) => status === 204)
      .map(({ body }) => {
        const { type, sandbox } = JSON.parse(body) as { type: string; sandbox: string };
        return `${type} ${sandbox}`;
      });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      // The daemon was killed in the middle of it.
      return;
    }
    const path = request.url ?? '';
    const status = this.answering({ path, count: this.all.length });
    this.all.push({ path, headers: request.headers, body: Buffer.concat(chunks).toString('utf8'), status });
    if (status === undefined) return;
    const location = status >= 300 && status < 400 ? { location: `${this.url}/elsewhere` } : {};
    response.writeHead(status, location).end();
  }
}
