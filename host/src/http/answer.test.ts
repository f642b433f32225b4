/** Answers to clients that do not read, do not stay, or do not stop sending: over real connections. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { type Answer, sendAnswer } from './answer.ts';
import { bodyChunks } from './upload.ts';

interface Scene extends AsyncDisposable {
  /** A connection that has sent this. */
  readonly client: (text: string) => Socket;
  /** Resolves with the first answer when nothing is left to send of it. */
  readonly sent: Promise<void>;
}

async function serve(answer: () => Answer): Promise<Scene> {
  const { promise: sent, resolve } = Promise.withResolvers<void>();
  const server = createServer((incoming, outgoing) => {
    sendAnswer(answer(), incoming, outgoing).then(resolve, assert.fail);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets: Socket[] = [];
  return {
    sent,
    client: (text) => {
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on(
        'error',
        () => undefined,
      );
      sockets.push(socket);
      socket.write(text);
      return socket;
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

const ask = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const piece = Buffer.alloc(65_536);

async function textOf(socket: Socket): Promise<string> {
  let text = '';
  for await (const part of socket) text += String(part);
  return text;
}

test('a stream whose maker gives up a client that takes nothing ends its connection', {
  timeout: 20_000,
}, async () => {
  let given = 0;
  await using scene = await serve(() => ({
    status: 200,
    headers: {},
    body: new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          given += 1;
          controller.enqueue(piece);
          const before = given;
          setTimeout(() => {
            if (given === before) controller.error(new Error('nobody takes it'));
          }, 200);
        },
      },
      { highWaterMark: 0 },
    ),
  }));
  const client = scene.client(ask);
  client.pause();
  await scene.sent;
  // It was cut in the middle: the last chunk, of no length, is missing.
  assert.ok(!(await textOf(client)).endsWith('\r\n0\r\n\r\n'));
});

test('a client that goes away ends the stream, and one that fails is cut off', {
  timeout: 20_000,
}, async () => {
  const cancelled = Promise.withResolvers<void>();
  await using scene = await serve(() => ({
    status: 200,
    headers: {},
    body: new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(piece),
      cancel: () => cancelled.resolve(),
    }),
  }));
  const client = scene.client(ask);
  await once(client, 'data');
  client.destroy();
  await cancelled.promise;
  await scene.sent;
  await using failing = await serve(() => ({
    status: 200,
    headers: { 'content-length': '9' },
    body: new ReadableStream<Uint8Array>({
      pull: (controller) => controller.error(new Error('no more')),
    }),
  }));
  assert.doesNotMatch(await textOf(failing.client(ask)), /\r\n\r\n./);
});

test('what comes of a body that nobody reads is thrown away behind the answer, and its sender cut off where it does not end', {
  timeout: 20_000,
}, async () => {
  await using scene = await serve(() => ({ status: 404, headers: {}, body: 'no' }));
  const put = 'PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n';
  const client = scene.client(`${put}ab`);
  await once(client, 'data');
  client.write(`cd${ask}`);
  assert.match(String((await once(client, 'data'))[0]), /^HTTP\/1\.1 404 [^]*no$/, 'the connection goes on');
  client.write(`${put}ab`);
  assert.match(await textOf(client), /^HTTP\/1\.1 404 [^]*no$/);
});

test('a refused body that is long ends its connection with the answer, which says so and comes whole', {
  timeout: 20_000,
}, async () => {
  await using scene = await serve(() => ({ status: 413, headers: {}, body: 'no' }));
  const part = 'x'.repeat(1_000_000);
  for (const length of ['Content-Length: 2000000', 'Transfer-Encoding: chunked']) {
    const client = scene.client(`PUT / HTTP/1.1\r\nHost: x\r\n${length}\r\n\r\n`);
    const [answer] = (await once(client, 'data')) as [Buffer];
    assert.match(String(answer), /^HTTP\/1\.1 413 [^]*\r\nconnection: close\r\n[^]*no$/i);
    client.write(length.startsWith('T') ? `f4240\r\n${part}\r\n0\r\n\r\n` : part + part);
    // No reset: all of it was taken.
    await once(client.resume(), 'end');
  }
});

test('so does one that is refused in its middle', { timeout: 20_000 }, async () => {
  const server = createServer((incoming, outgoing) => {
    const refuse = async (): Promise<void> => {
      for await (const chunk of bodyChunks(incoming)) if (chunk.length > 0) break;
      await sendAnswer({ status: 413, headers: {}, body: 'no' }, incoming, outgoing);
    };
    refuse().catch(assert.fail);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const part = 'x'.repeat(1_000_000);
  client.write(`PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n${part}`);
  await once(client, 'data');
  client.write(part.repeat(8));
  // A reset is an error.
  await once(client.resume(), 'end');
  server.close();
});

test('of clients that do not take large answers the first are cut off, and the next is served', {
  timeout: 60_000,
}, async () => {
  const body = 'x'.repeat(8_388_608);
  await using scene = await serve(() => ({ status: 200, headers: {}, body }));
  const deaf: Socket[] = [];
  for (let count = 0; count < 24; count += 1) {
    const socket = scene.client(ask);
    await once(socket, 'readable');
    deaf.push(socket);
  }
  const whole = await textOf(scene.client(ask.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')));
  assert.ok(whole.endsWith(body));
  const first = await textOf(deaf[0] ?? assert.fail());
  assert.ok(first.length < body.length);
});
