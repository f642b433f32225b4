/** One side of an HTTP connection that has nothing more to say: the other's words arrive all the same, as without anybody between. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { host, Intercepted, key, oneSecret } from '../../../tests/support/intercepted.ts';

interface Heard {
  text: string;
  hasEnded: boolean;
}

/** A server of the test's own on plain TCP, which says what it likes and when. */
async function rawServer(serve: (socket: Socket, heard: Heard) => void) {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    const heard: Heard = { text: '', hasEnded: false };
    socket.setEncoding('latin1').on('error', () => undefined);
    socket.on('data', (piece: string) => {
      heard.text += piece;
    });
    socket.on('end', () => {
      heard.hasEnded = true;
    });
    serve(socket, heard);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const get = `GET /late HTTP/1.1\r\nHost: ${host}\r\n\r\n`;

for (const origin of ['plain', 'http/1.1'] as const) {
  test(`a program that has ended its side gets its answer, from a server of ${origin}`, async () => {
    await using to = await Intercepted.start({
      origin,
      secrets: oneSecret,
      handler: (request, response) => {
        request.on('end', () => setTimeout(() => response.end(`late ${key.value}`), 300)).resume();
      },
    });
    // Else Node's own server takes an end for giving up.
    Object.assign(to.originServer ?? {}, { httpAllowHalfOpen: true, allowHalfOpen: true });
    const socket = await to.connect();
    socket.allowHalfOpen = true;
    socket.end(get);
    const answer = await text(socket);
    assert.match(answer, new RegExp(`^HTTP/1.1 200 [^]*late ${key.placeholder}`));
    assert.equal((await to.decision(0)).verdict, 'allowed');
    await Promise.all(to.running);
  });
}

test('of requests sent ahead all are answered, and the server hears the end behind the last', async () => {
  const heard: Heard[] = [];
  using server = await rawServer((socket, present) => {
    heard.push(present);
    let answered = 0;
    socket.on('data', () => {
      const asked = present.text.split('\r\n\r\n').length - 1;
      for (; answered < asked; answered += 1) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    });
    socket.on('end', () => socket.end());
  });
  await using to = await Intercepted.start({ origin: 'plain', originPort: server.port });
  const socket = await to.connect();
  socket.allowHalfOpen = true;
  socket.end(get.repeat(3));
  const answer = await text(socket);
  assert.equal(answer.split('HTTP/1.1 200').length - 1, 3);
  await Promise.all(to.running);
  assert.deepEqual(
    heard.map(({ hasEnded }) => hasEnded),
    [true],
  );
});

test('a server that ends its side with its answer, before it has read the request, is heard', async () => {
  using server = await rawServer((socket) =>
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\n\r\nearly')),
  );
  await using to = await Intercepted.start({ origin: 'plain', originPort: server.port });
  const socket = await to.connect();
  socket.on('error', () => undefined);
  socket.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 1000000\r\n\r\nfirst`);
  let answer = '';
  socket.on('data', (piece: Buffer) => {
    answer += piece.toString();
    if (answer.endsWith('0\r\n\r\n')) socket.end('the rest');
  });
  await once(socket, 'close');
  assert.match(answer, /^HTTP\/1\.1 200 [^]*early/);
});

test('a program that ends within its request gets no server’s answer', async () => {
  await using to = await Intercepted.start({ origin: 'plain' });
  const socket = await to.connect();
  socket.allowHalfOpen = true;
  socket.end(`POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 10\r\n\r\nfirst`);
  assert.doesNotMatch(await text(socket), /^HTTP\/1.1 200/);
  await Promise.all(to.running);
});
