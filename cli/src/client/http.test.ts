/** The HTTP client against Node’s own server, and against servers that speak it badly. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createNetServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { CliFailure } from '../failure.ts';
import { type Address, parseAddress } from './address.ts';
import { Client } from './client.ts';
import { sendRequest } from './http.ts';

async function serving(listener: RequestListener, use: (address: Address, url: string) => Promise<void>) {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const bound = server.address();
  assert.ok(typeof bound === 'object' && bound !== null);
  const url = `http://127.0.0.1:${bound.port}`;
  try {
    await use(parseAddress(url, 'test'), url);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

async function bodyOf(address: Address, path = '/'): Promise<string> {
  const response = await sendRequest(address, { method: 'GET', path });
  const parts: Buffer[] = [];
  for await (const part of response.body()) parts.push(part);
  return Buffer.concat(parts).toString();
}

/** A server that answers with these bytes, whatever it is asked. */
async function answering(text: string, use: (address: Address) => Promise<void>) {
  const server = createNetServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(text));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const bound = server.address();
  assert.ok(typeof bound === 'object' && bound !== null);
  try {
    await use(parseAddress(`http://127.0.0.1:${bound.port}`, 'test'));
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}

const hastyServer = `
  const { createServer } = require('node:net');
  const { parentPort, workerData } = require('node:worker_threads');
  const body = JSON.stringify({ detail: 'not there', code: 'sandbox_not_found' });
  const answer = 'HTTP/1.1 404 Not Found\\r\\ncontent-length: ' + body.length + '\\r\\n\\r\\n' + body;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(answer, () => socket.destroy()));
  });
  server.listen(workerData, () => parentPort.postMessage('listening'));
`;

describe('sendRequest', () => {
  it('reads counted, chunked and unbounded bodies of any size', async () => {
    const big = 'x'.repeat(3_000_000);
    await serving(
      (request, response) => {
        if (request.url === '/counted') response.setHeader('content-length', big.length);
        if (request.url === '/closed') response.shouldKeepAlive = false;
        if (request.url === '/empty') response.writeHead(204).end();
        else {
          response.write(big.slice(0, 1000));
          response.end(big.slice(1000));
        }
      },
      async (address) => {
        for (const path of ['/counted', '/chunked', '/closed'])
          assert.equal(await bodyOf(address, path), big, path);
        assert.equal(await bodyOf(address, '/empty'), '');
      },
    );
  });

  it('sends streams chunked or counted, and hears a refusal that comes before their end', async () => {
    let received = 0;
    await serving(
      (request, response) => {
        if (request.url === '/refuse') {
          response.writeHead(413, { 'content-type': 'application/json' });
          response.end(JSON.stringify({ error: 'too large', code: 'body_too_large' }));
          return;
        }
        request.on('data', (part: Buffer) => {
          received += part.length;
        });
        request.on('end', () =>
          response.end(JSON.stringify({ received, length: request.headers['content-length'] })),
        );
      },
      async (_, url) => {
        const client = new Client({ url });
        const parts = async function* (count: number) {
          for (let index = 0; index < count; index += 1) yield Buffer.alloc(65_536);
          await Promise.resolve();
        };
        assert.deepEqual(await client.upload('/', parts(40), undefined), { received: 40 * 65_536 });
        received = 0;
        assert.deepEqual(await client.upload('/', parts(3), 3 * 65_536), {
          received: 196_608,
          length: '196608',
        });
        await assert.rejects(
          client.upload('/refuse', parts(100_000), undefined),
          (error) => error instanceof CliFailure && error.code === 'body_too_large',
        );
      },
    );
  });

  it('reaches a socket whose path is longer than an address holds', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'squash-http-'));
    const deep = join(directory, 'd'.repeat(90), 'e'.repeat(90));
    mkdirSync(deep, { recursive: true });
    const server = createServer((_, response) => response.end('there'));
    // Bound at a short name in the same place, through the directory itself.
    const cwd = process.cwd();
    process.chdir(deep);
    await new Promise<void>((resolve) => server.listen('s', resolve));
    process.chdir(cwd);
    try {
      assert.equal(await bodyOf({ kind: 'unix', path: join(deep, 's') }), 'there');
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(directory, { recursive: true });
    }
  });

  it('hears a refusal by a server that closes behind the head of a request with a body', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'squash-http-'));
    const socket = join(directory, 's');
    // In a thread of its own, as a daemon is a process of its own: it answers while we still write.
    const server = new Worker(hastyServer, { eval: true, workerData: socket });
    try {
      await new Promise((resolve) => server.once('message', resolve));
      for (let round = 0; round < 50; round += 1)
        await assert.rejects(
          new Client({ socket }).put('/', { round }),
          (error) => error instanceof CliFailure && error.code === 'sandbox_not_found',
        );
    } finally {
      await server.terminate();
      rmSync(directory, { recursive: true });
    }
  });

  it('sends the token over TCP and keeps it from a Unix socket', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'squash-http-'));
    const socket = join(directory, 's');
    const echo: RequestListener = (request, response) =>
      response.end(JSON.stringify(request.headers.authorization ?? null));
    const unix = createServer(echo);
    await new Promise<void>((resolve) => unix.listen(socket, resolve));
    try {
      assert.equal(await new Client({ socket, token: 't' }).get('/'), null);
      await serving(echo, async (_, url) => {
        assert.equal(await new Client({ url, token: 't' }).get('/'), 'Bearer t');
        await assert.rejects(new Client({ url, token: 'a\r\nx: y' }).get('/'), CliFailure);
      });
    } finally {
      unix.closeAllConnections();
      await new Promise((resolve) => unix.close(resolve));
      rmSync(directory, { recursive: true });
    }
  });

  it('fails in words for what is no HTTP, breaks off, is endless or refuses', async () => {
    const broken = [
      'SSH-2.0-OpenSSH\r\n',
      '',
      'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
      `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}`,
      `HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(200)}\r\n`,
      'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n<htm>',
    ];
    for (const text of broken) {
      await answering(text, async (address) => {
        const url = address.kind === 'tcp' ? `http://127.0.0.1:${address.port}` : '';
        await assert.rejects(new Client({ url }).get('/'), Error, text.slice(0, 40));
      });
    }
    await answering('HTTP/1.1 502 Bad\r\ncontent-length: 6\r\n\r\n<html>', async (address) => {
      const url = address.kind === 'tcp' ? `http://127.0.0.1:${address.port}` : '';
      await assert.rejects(new Client({ url }).get('/'), /status 502/);
    });
  });
});
