/** Requests to a test daemon, byte for byte as a test says, every answer held against the contract. */
import { once } from 'node:events';
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { expectContract } from './contract.ts';
import type { TestDaemon } from './daemon.ts';

export interface ApiAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  /** The parsed body; undefined where it is no JSON. Tests say what they expect of it. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
}

export interface ApiRequest {
  readonly headers?: OutgoingHttpHeaders;
  /** Sent as it is. */
  readonly text?: string | Buffer;
  /** Sent as JSON, as `curl -d` does: with the form's content type. */
  readonly body?: unknown;
}

export class ApiClient {
  readonly #daemon: TestDaemon;

  constructor(daemon: TestDaemon) {
    this.#daemon = daemon;
  }

  async send(method: string, path: string, options: ApiRequest = {}): Promise<ApiAnswer> {
    const body = options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
    const type =
      body === undefined
        ? {}
        : {
            'content-type': 'application/x-www-form-urlencoded',
            // Node sends the body of an OPTIONS or DELETE without a length unless told: that is no HTTP.
            'content-length': Buffer.byteLength(body),
          };
    const sent = request({
      host: '127.0.0.1',
      port: this.#daemon.port,
      agent: false,
      method,
      path,
      headers: { ...type, ...options.headers },
    });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString('utf8');
    const status = response.statusCode ?? 0;
    expectContract(method, path, { status, contentType: response.headers['content-type'] ?? '', text });
    return { status, headers: response.headers, text, json: parsed(text) };
  }

  get(path: string): Promise<ApiAnswer> {
    return this.send('GET', path);
  }

  post(path: string, body?: unknown): Promise<ApiAnswer> {
    return this.send('POST', path, body === undefined ? {} : { body });
  }

  delete(path: string): Promise<ApiAnswer> {
    return this.send('DELETE', path);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Some answers have no body or are no JSON.
    return undefined;
  }
}
