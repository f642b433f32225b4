/**
 * A server that answers with anything. Whatever it sends, the program gets an answer or an end, no value passes, and
 * the process goes on: it serves every other sandbox, too.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { host, Intercepted, key, oneSecret } from '../../../tests/support/intercepted.ts';

/** Sends the same bytes to everyone who says anything. */
async function sayingServer(): Promise<{ port: number; say: (text: string) => void } & AsyncDisposable> {
  let words = '';
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(Buffer.from(words, 'latin1')));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    say: (text) => {
      words = text;
    },
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, 'close');
    },
  };
}

async function ask(to: Intercepted, isHttp2: boolean): Promise<string> {
  const socket = await to.connect(isHttp2 ? ['h2'] : ['http/1.1']);
  socket.on('error', () => {});
  const stuck = setTimeout(() => socket.destroy(new Error('neither an answer nor an end came')), 10_000);
  let answer = '';
  if (isHttp2) {
    const session = connectHttp2(`http://${host}`, { createConnection: () => socket });
    session.on('error', () => {});
    const stream = session.request({ ':path': '/' });
    stream.on('error', () => {});
    stream.on('response', (headers) => {
      answer += JSON.stringify(headers);
    });
    stream.on('data', (piece: Buffer) => {
      answer += piece.toString('latin1');
    });
    if (!stream.closed) await once(stream, 'close').catch(() => {});
    session.destroy();
  } else {
    socket.setEncoding('latin1').on('data', (piece: string) => {
      answer += piece;
    });
    socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    if (!socket.closed) await once(socket, 'close').catch(() => {});
  }
  clearTimeout(stuck);
  assert.equal(socket.errored?.message === 'neither an answer nor an end came', false, answer);
  return answer;
}

const nasty = [
  '',
  'garbage',
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx\u0001: 1\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 103 Early Hints\r\nLink: not a link\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nConnection: x\r\nbad name: 1\r\n\r\n',
  'HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 000 None\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n',
  'HTTP/1.1 200 OK\r\nX: \u00ff\u0080\r\nset-cookie: a\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 200 \u00ff\u00fe\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 200 OK\r\nconnection: close, x\r\nx: 1\r\nkeep-alive: timeout=-1\r\nproxy-connection: a\r\n\r\nok',
  'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip at all',
  'HTTP/1.1 200 OK\r\nContent-Encoding: compress\r\n\r\nx',
  'HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\nx',
  `HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(30_000)}\r\n`,
  `HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(2_000)}Content-Length: 2\r\n\r\nok`,
  `HTTP/1.1 200 OK\r\nX: ${'y'.repeat(100_000)}\r\n\r\n`,
  `HTTP/1.1 103 Early Hints\r\nLink: </${key.value}>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
  `${'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n'.repeat(1_000)}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
  `HTTP/1.1 200 ${key.value}\r\nX: ${key.value}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx-t: ${key.value}\r\n\r\n`,
  // What follows behind an encoding's end nobody has decoded.
  ...Object.entries({
    br: brotliCompressSync('hi'),
    zstd: zstdCompressSync('hi'),
    deflate: deflateSync('hi'),
    ' deflate': deflateRawSync('hi'),
    gzip: Buffer.concat([gzipSync('hi'), Buffer.alloc(1)]),
  }).map(
    ([coding, body]) =>
      `HTTP/1.1 200 OK\r\nContent-Encoding:${coding}\r\n\r\n${body.toString('latin1')}${key.value}`,
  ),
];

test('every broken answer becomes an answer or an end, in both versions', async () => {
  await using server = await sayingServer();
  for (const isHttp2 of [false, true]) {
    // With an HTTP/1.1 server behind an HTTP/2 program the two versions' ideas of what is legal meet.
    await using to = await Intercepted.start({ origin: isHttp2 ? 'http/1.1' : 'plain', secrets: oneSecret });
    if (!isHttp2) to.originPort = server.port;
    for (const words of nasty) {
      server.say(words);
      if (isHttp2) to.sayRaw(words);
      const answer = await ask(to, isHttp2);
      assert.ok(!answer.includes('sk-real'), words.slice(0, 80));
    }
    assert.equal(to.decisions.length, nasty.length);
  }
});

test('random answers never bring the process down', async () => {
  await using server = await sayingServer();
  await using to = await Intercepted.start({ origin: 'plain', secrets: oneSecret });
  to.originPort = server.port;
  const piece = fc.constantFrom(
    'HTTP/1.1 200 OK\r\n',
    'HTTP/1.1 103 Early Hints\r\n',
    'HTTP/1.1 101 Switching Protocols\r\n',
    'Transfer-Encoding: chunked\r\n',
    'Content-Length: 3\r\n',
    'Content-Encoding: br\r\n',
    'Content-Type: text/event-stream\r\n',
    'Connection: close\r\n',
    'Upgrade: websocket\r\n',
    'Trailer: x\r\n',
    `X: ${key.value}\r\n`,
    '\r\n',
    '3\r\nabc\r\n',
    '0\r\n',
    'abc',
    key.value,
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof({ weight: 9, arbitrary: piece }, fc.string({ maxLength: 5 })), { maxLength: 20 }),
      async (pieces) => {
        server.say(pieces.join(''));
        const answer = await ask(to, false);
        assert.ok(!answer.includes(key.value), answer);
      },
    ),
    { numRuns: 300 },
  );
});
