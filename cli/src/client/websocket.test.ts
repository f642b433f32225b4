/** The WebSocket client against `ws`, and against servers that speak it badly. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, it } from 'node:test';
import { type WebSocket, WebSocketServer } from 'ws';
import { parseAddress } from './address.ts';
import { openWebSocket, type WebSocketConnection } from './websocket.ts';

async function connected(
  serve: (server: WebSocket) => void,
  use: (client: WebSocketConnection) => Promise<void>,
): Promise<void> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', handleProtocols: () => 'test' });
  server.on('connection', serve);
  await once(server, 'listening');
  const bound = server.address();
  assert.ok(typeof bound === 'object' && bound !== null);
  const address = parseAddress(`http://127.0.0.1:${bound.port}`, 'test');
  try {
    const outcome = await openWebSocket(address, { path: '/', subprotocol: 'test', headers: {} });
    assert.equal(outcome.type, 'open');
    if (outcome.type === 'open') await use(outcome.connection);
  } finally {
    for (const each of server.clients) each.terminate();
    await new Promise((resolve) => server.close(resolve));
  }
}

describe('WebSocketConnection', () => {
  it('carries messages of every length class both ways, byte for byte', async () => {
    const messages = [0, 1, 125, 126, 127, 65_535, 65_536, 200_000].map((bytes) => randomBytes(bytes));
    await connected(
      (server) => server.on('message', (data, binary) => server.send(data, { binary })),
      async (client) => {
        const received = client.messages();
        for (const message of messages) {
          await client.sendBinary(message);
          const answer = await received.next();
          assert.ok(answer.done !== true && answer.value.type === 'binary');
          assert.ok(message.equals(answer.value.data), `${message.length} bytes`);
        }
        await client.sendText('grün');
        assert.deepEqual((await received.next()).value, { type: 'text', text: 'grün' });
        client.close();
        assert.equal((await received.next()).done, true);
      },
    );
  });

  it('puts fragments together, answers pings, and ends at a normal close', async () => {
    const { promise: pong, resolve } = Promise.withResolvers<string>();
    await connected(
      (server) => {
        server.on('pong', (data) => resolve(data.toString()));
        server.ping('are you there');
        server.send('a', { fin: false });
        server.send('b', { fin: false });
        server.send('c', { fin: true });
        server.close(1000);
      },
      async (client) => {
        const all = [];
        for await (const message of client.messages()) all.push(message);
        assert.deepEqual(all, [{ type: 'text', text: 'abc' }]);
        assert.equal(await pong, 'are you there');
      },
    );
  });

  it('tells of a close with a reason and of a connection that breaks', async () => {
    await connected(
      (server) => server.close(1011, 'full'),
      async (client) => assert.rejects(client.messages().next(), /1011: full/),
    );
    await connected(
      (server) => server.terminate(),
      async (client) => assert.rejects(client.messages().next(), /closed the connection/),
    );
  });

  it('takes nothing from the socket while nobody asks, so that the server’s buffer grows and not ours', async () => {
    const chunk = Buffer.alloc(65_536);
    const total = 400;
    const { promise: accepted, resolve } = Promise.withResolvers<WebSocket>();
    await connected(
      (server) => {
        resolve(server);
        for (let index = 0; index < total; index += 1) server.send(chunk);
        server.close(1000);
      },
      async (client) => {
        const server = await accepted;
        const received = client.messages();
        await received.next();
        // What the kernel and one read hold is the most that has left the server: 26 MB do not fit there.
        assert.ok(server.bufferedAmount > (total * chunk.length) / 4, `${server.bufferedAmount}`);
        let bytes = chunk.length;
        for await (const message of received) if (message.type === 'binary') bytes += message.data.length;
        assert.equal(bytes, total * chunk.length);
      },
    );
  });

  it('refuses a server that does not prove the protocol, masks, compresses or sends too much', async () => {
    const frames = [
      Buffer.from([0x82, 0x80 | 1, 0, 0, 0, 0, 7]),
      Buffer.from([0xc2, 1, 7]),
      Buffer.from([0x82, 127, 0, 0, 0, 0, 0xff, 0, 0, 0]),
    ];
    for (const frame of [undefined, ...frames]) {
      const server = createServer((socket) => {
        socket.on('error', () => {});
        socket.once('data', () => {
          socket.write(
            `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-protocol: ${frame === undefined ? 'other' : 'test'}\r\n\r\n`,
          );
          if (frame !== undefined) socket.write(frame);
        });
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const bound = server.address();
      assert.ok(typeof bound === 'object' && bound !== null);
      const address = parseAddress(`http://127.0.0.1:${bound.port}`, 'test');
      await assert.rejects(async () => {
        const outcome = await openWebSocket(address, { path: '/', subprotocol: 'test', headers: {} });
        assert.equal(outcome.type, 'open');
        if (outcome.type !== 'open') return;
        try {
          await outcome.connection.messages().next();
        } finally {
          outcome.connection.destroy();
        }
      });
      await new Promise((resolve) => server.close(resolve));
    }
  });
});
