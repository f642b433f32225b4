/**
 * The requests of the benchmark, sent as any client would: HTTP/1.1 with keep-alive on loopback TCP, and the
 * native exec stream. No shortcut into the daemon: what is timed is what a user gets.
 */
import { Agent, request } from 'node:http';
import { WebSocket } from 'ws';

/** More than the burst's 100, so that no request of it waits for another's connection. */
const connectionsMax = 128;

export interface Answer {
  readonly status: number;
  readonly body: string;
}

export class SquashClient implements Disposable {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: connectionsMax });
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  async send(method: string, path: string, body?: unknown): Promise<Answer> {
    const text = body === undefined ? '' : JSON.stringify(body);
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
    const options = { host: '127.0.0.1', port: this.#port, agent: this.#agent, method, path, headers };
    return await new Promise((resolve, reject) => {
      const sent = request(options, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') }),
        );
        response.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(text);
    });
  }

  /** @param more fields of the request */
  async create(id: string, layers: readonly string[], more: object = {}): Promise<void> {
    const body = { id, layers, memory_mb: 256, ...more };
    expectStatus(await this.send('POST', '/cgi-bin/api/sandboxes', body), 201);
  }

  /** Until it is here. */
  async pullImage(reference: string): Promise<void> {
    for (;;) {
      const answer = await this.send('POST', '/v1/images', { reference });
      expectStatus(answer, 200);
      if ((JSON.parse(answer.body) as { state: string }).state === 'ready') return;
    }
  }

  async removeImage(reference: string): Promise<void> {
    expectStatus(await this.send('DELETE', `/v1/images/${encodeURIComponent(reference)}`), 204);
  }

  /** A sandbox of `/v1` from an image. Its id. */
  async createFromImage(image: string): Promise<string> {
    const answer = await this.send('POST', '/v1/sandboxes', { image });
    expectStatus(answer, 201);
    return (JSON.parse(answer.body) as { id: string }).id;
  }

  /** @throws unless the command exits with 0 */
  async exec(id: string, cmd: string, timeout = 300): Promise<string> {
    const answer = await this.send('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd, timeout });
    expectStatus(answer, 200);
    const record = JSON.parse(answer.body) as { exit_code: number; stdout: string; stderr: string };
    if (record.exit_code !== 0)
      throw new Error(`exec "${cmd}" exited with ${record.exit_code}: ${record.stderr}`);
    return record.stdout;
  }

  /** The unary exec of `/v1`. @throws unless the command exits with 0 */
  async run(id: string, argv: readonly string[]): Promise<void> {
    const answer = await this.send('POST', `/v1/sandboxes/${id}/exec`, { argv });
    expectStatus(answer, 200);
    const { exit_code } = JSON.parse(answer.body) as { exit_code: number };
    if (exit_code !== 0) throw new Error(`${argv[0]} exited with ${exit_code}`);
  }

  /** A cell of the default context. @throws unless it ends well */
  async cell(id: string, code: string): Promise<void> {
    const answer = await this.send('POST', `/v1/sandboxes/${id}/contexts/default-python/cells`, { code });
    expectStatus(answer, 200);
    const { status } = JSON.parse(answer.body) as { status: string };
    if (status !== 'ok') throw new Error(`a cell ended with ${status}`);
  }

  /** Milliseconds from the request for a process to the first byte that it writes, over plain HTTP; waits for its end. */
  async firstByte(id: string, argv: readonly string[]): Promise<number> {
    const text = JSON.stringify({ argv });
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
      accept: 'application/x-ndjson',
    };
    const path = `/v1/sandboxes/${id}/processes`;
    const options = {
      host: '127.0.0.1',
      port: this.#port,
      agent: this.#agent,
      method: 'POST',
      path,
      headers,
    };
    const beganMs = performance.now();
    return await new Promise((resolve, reject) => {
      const sent = request(options, (response) => {
        let firstMs: number | undefined;
        let received = '';
        response.on('data', (chunk: Buffer) => {
          received += chunk.toString('utf8');
          if (received.includes('"type":"output"')) firstMs ??= performance.now() - beganMs;
        });
        response.on('end', () =>
          firstMs === undefined ? reject(new Error(`no output: ${received}`)) : resolve(firstMs),
        );
        response.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(text);
    });
  }

  async snapshot(id: string, label: string): Promise<void> {
    expectStatus(await this.send('POST', `/cgi-bin/api/sandboxes/${id}/snapshot`, { label }), 200);
  }

  /** What the snapshot's own file has. */
  async snapshotBytes(id: string, label: string): Promise<number> {
    const answer = await this.send('GET', `/v1/sandboxes/${id}/snapshots/${label}`);
    expectStatus(answer, 200);
    return (JSON.parse(answer.body) as { size_bytes: number }).size_bytes;
  }

  /** Its id. */
  async fork(id: string): Promise<string> {
    const answer = await this.send('POST', '/v1/sandboxes', { from: { sandbox: id } });
    expectStatus(answer, 201);
    return (JSON.parse(answer.body) as { id: string }).id;
  }

  async restore(id: string, label: string): Promise<void> {
    expectStatus(await this.send('POST', `/cgi-bin/api/sandboxes/${id}/restore`, { label }), 200);
  }

  async destroy(id: string): Promise<void> {
    expectStatus(await this.send('DELETE', `/cgi-bin/api/sandboxes/${id}`), 204);
  }

  async importModule(name: string, squashfs: Uint8Array): Promise<void> {
    const url = `http://127.0.0.1:${this.#port}/v1/modules/${name}`;
    const answer = await fetch(url, { method: 'PUT', body: Buffer.from(squashfs) });
    expectStatus({ status: answer.status, body: await answer.text() }, 200);
  }

  async removeModule(name: string): Promise<void> {
    expectStatus(await this.send('DELETE', `/v1/modules/${name}`), 204);
  }

  async bucket(way: 'push' | 'pull', what: { readonly module: string }): Promise<void> {
    expectStatus(await this.send('POST', `/v1/bucket/${way}`, what), 204);
  }

  async removeObject(key: string): Promise<void> {
    expectStatus(await this.send('DELETE', `/v1/bucket/objects?key=${encodeURIComponent(key)}`), 204);
  }

  async list(): Promise<string[]> {
    const answer = await this.send('GET', '/cgi-bin/api/sandboxes');
    expectStatus(answer, 200);
    return (JSON.parse(answer.body) as { id: string }[]).map(({ id }) => id);
  }

  /** The native stream: one WebSocket for one command, `stdin` sent whole. @throws unless it exits with 0 */
  async stream(id: string, argv: readonly string[], stdin?: Uint8Array): Promise<void> {
    const url = `ws://127.0.0.1:${this.#port}/v1/sandboxes/${id}/exec`;
    const socket = new WebSocket(url, 'squash.exec.v1', { perMessageDeflate: false });
    await new Promise<void>((resolve, reject) => {
      socket.on('open', () => {
        socket.send(JSON.stringify({ type: 'start', argv, stdin: stdin !== undefined }));
      });
      socket.on('message', (data: Buffer, isBinary: boolean) => {
        if (isBinary) return;
        const event = JSON.parse(data.toString('utf8')) as { type: string; exit_code?: number };
        if (event.type === 'started') {
          if (stdin !== undefined) sendStdin(socket, stdin);
          return;
        }
        // The answer is complete here; the closing handshake that follows is nobody's waiting time.
        if (event.type === 'exit' && event.exit_code === 0) resolve();
        else reject(new Error(`stream of ${argv[0]}: ${data.toString('utf8')}`));
        socket.close();
      });
      socket.on('error', reject);
      socket.on('close', () => reject(new Error('the stream closed without an exit')));
    });
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

/** In messages of 64 KiB: the daemon refuses a message much larger than that. */
function sendStdin(socket: WebSocket, stdin: Uint8Array): void {
  for (let offset = 0; offset < stdin.length; offset += 65_536) {
    socket.send(stdin.subarray(offset, offset + 65_536), { binary: true });
  }
  socket.send(JSON.stringify({ type: 'stdin_eof' }));
}

function expectStatus(answer: Answer, status: number): void {
  if (answer.status !== status) throw new Error(`answered ${answer.status}: ${answer.body.slice(0, 500)}`);
}
