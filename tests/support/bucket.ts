/**
 * An S3 server of its own for a test (s3rver, which checks signatures and knows pages, ranges and parts), and before it
 * a proxy on another port that carries bytes until it is told to do otherwise.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { repository } from './base-layer.ts';
import { freePort } from './free-port.ts';
import { waitFor } from './wait.ts';

/** What is done with one request. */
export type Fault = 'none' | 'refuse' | 'cut' | 'half' | 'wrong' | 'full' | 'stall' | 'endless';

export class TestBucket implements AsyncDisposable {
  readonly #directory: string;
  readonly seen: { readonly method: string; readonly path: string; readonly range: string | undefined }[] =
    [];
  /** Asked for each request. */
  fault: (request: IncomingMessage) => Fault = () => 'none';
  readonly #child: ChildProcess;
  readonly #port: number;
  readonly #proxy: Server;
  readonly client: S3Client;

  private constructor(
    proxy: Server,
    {
      directory,
      child,
      port,
    }: { readonly directory: string; readonly child: ChildProcess; readonly port: number },
  ) {
    this.#directory = directory;
    this.#child = child;
    this.#port = port;
    this.#proxy = proxy;
    this.client = new S3Client({
      endpoint: `http://127.0.0.1:${port}`,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    });
  }

  static async start(): Promise<TestBucket> {
    const port = await freePort();
    const proxy = createServer();
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const directory = mkdtempSync(join(tmpdir(), 'squash-s3rver-'));
    const words = [
      '--directory',
      directory,
      '--port',
      String(port),
      '--configure-bucket',
      'squash',
      '--silent',
    ];
    const program = join(repository, 'node_modules/s3rver/bin/s3rver.js');
    // It keeps its place in a list in a token that it encrypts with DES.
    const child = spawn(process.execPath, ['--openssl-legacy-provider', program, ...words], {
      stdio: 'ignore',
    });
    const bucket = new TestBucket(proxy, { directory, child, port });
    proxy.on('request', (incoming: IncomingMessage, reply: ServerResponse) => bucket.#carry(incoming, reply));
    await waitFor('the S3 server answers', () => isOpen(port));
    return bucket;
  }

  /** Of the server itself, without the proxy. */
  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get environment(): Readonly<Record<string, string>> {
    return {
      SQUASH_S3_BUCKET: 'squash',
      SQUASH_S3_ENDPOINT: `http://127.0.0.1:${(this.#proxy.address() as AddressInfo).port}`,
      SQUASH_S3_PREFIX: 'team a/x+y',
      SQUASH_S3_ACCESS_KEY_ID: 'S3RVER',
      SQUASH_S3_SECRET_ACCESS_KEY: 'S3RVER',
    };
  }

  /** As the original does it: no digest. */
  async put(key: string, body: Buffer, sha256?: string): Promise<void> {
    const Metadata = sha256 === undefined ? {} : { sha256 };
    await this.client.send(
      new PutObjectCommand({ Bucket: 'squash', Key: `team a/x+y/${key}`, Body: body, Metadata }),
    );
  }

  async read(key: string): Promise<Buffer> {
    const found = await this.client.send(
      new GetObjectCommand({ Bucket: 'squash', Key: `team a/x+y/${key}` }),
    );
    return Buffer.from((await found.Body?.transformToByteArray()) ?? []);
  }

  /** Names right below a folder. */
  async keys(folder: string): Promise<readonly string[]> {
    const Prefix = `team a/x+y/${folder}`;
    const found = await this.client.send(new ListObjectsV2Command({ Bucket: 'squash', Prefix }));
    return (found.Contents ?? []).map(({ Key = '' }) => Key.slice(Prefix.length));
  }

  /** Of the objects below a prefix, by the rest of their keys. */
  async sizes(prefix: string): Promise<ReadonlyMap<string, number>> {
    const Prefix = `team a/x+y/${prefix}`;
    const found = await this.client.send(new ListObjectsV2Command({ Bucket: 'squash', Prefix }));
    return new Map((found.Contents ?? []).map(({ Key = '', Size = 0 }) => [Key.slice(Prefix.length), Size]));
  }

  /** Undefined: there is none. */
  async look(
    key: string,
  ): Promise<{ readonly size: number; readonly sha256: string | undefined } | undefined> {
    try {
      const found = await this.client.send(
        new HeadObjectCommand({ Bucket: 'squash', Key: `team a/x+y/${key}` }),
      );
      return { size: found.ContentLength ?? -1, sha256: found.Metadata?.['sha256'] };
    } catch (error) {
      if (error instanceof Error && error.name === 'NotFound') return undefined;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.destroy();
    this.#proxy.closeAllConnections();
    this.#proxy.close();
    if (this.#child.exitCode === null) {
      this.#child.kill('SIGKILL');
      await once(this.#child, 'exit');
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #carry(incoming: IncomingMessage, reply: ServerResponse): void {
    const { method = '', url: path = '', headers } = incoming;
    this.seen.push({ method, path, range: headers.range });
    const fault = this.fault(incoming);
    if (fault === 'stall') return;
    if (fault === 'endless') {
      incoming.resume();
      reply.writeHead(path.includes('list-type') ? 200 : 400, { 'content-type': 'application/xml' });
      const piece = Buffer.alloc(1_048_576, ' ');
      const more = (): void => {
        if (!reply.destroyed && reply.write(piece)) setImmediate(more);
      };
      reply.on('drain', more).write('<Error>');
      more();
      return;
    }
    if (fault === 'refuse' || fault === 'full') {
      incoming.resume();
      incoming.on('end', () => reply.writeHead(fault === 'full' ? 507 : 500).end());
      return;
    }
    // `Host` as the client signed it, with its port.
    const onward = request({ host: '127.0.0.1', port: this.#port, method, path, headers }, (answer) => {
      reply.writeHead(answer.statusCode ?? 502, answer.headers);
      let bytes = 0;
      answer.on('data', (piece: Buffer) => {
        if (fault === 'half') {
          reply.write(piece.subarray(0, piece.length >> 1));
          answer.destroy();
          setTimeout(() => incoming.socket.destroy(), 20);
          return;
        }
        if (fault === 'wrong' && bytes === 0)
          piece[piece.length >> 1] = 255 - (piece[piece.length >> 1] ?? 0);
        bytes += piece.length;
        if (!reply.write(piece)) {
          answer.pause();
          reply.once('drain', () => answer.resume());
        }
        if (fault === 'cut' && bytes > 100_000) {
          answer.destroy();
          // What was written goes out before the end.
          setTimeout(() => incoming.socket.destroy(), 20);
        }
      });
      answer.on('end', () => reply.end());
      answer.on('error', () => reply.destroy());
    });
    onward.on('error', () => reply.destroy());
    incoming.pipe(onward);
  }
}

async function isOpen(port: number): Promise<boolean> {
  const answer = Promise.withResolvers<boolean>();
  const asked = request({ host: '127.0.0.1', port }, (reply) => {
    reply.resume();
    answer.resolve(true);
  });
  asked.on('error', () => answer.resolve(false));
  asked.end();
  return await answer.promise;
}
