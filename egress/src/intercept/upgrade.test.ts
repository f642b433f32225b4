/**
 * Requests that leave HTTP where a rule is about requests: only as a rule says, and behind the change nothing stands that
 * the server could take for another request.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { test } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { host, Intercepted } from '../../../tests/support/intercepted.ts';

const paths = ['/ws'];
const rules = (upgrades?: readonly string[]) => ({
  allow: [{ to: host, paths, ...(upgrades && { upgrades }) }],
});
const key = 'AAAAAAAAAAAAAAAAAAAAAA==';
const proof = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');

function asking(protocol: string): string {
  return `GET /ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`;
}

/** A server that says 101 to everything and then keeps what comes. */
function agreeing(to: Intercepted, head: string): () => string {
  let seen = '';
  to.originServer?.on('upgrade', (_request: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => {}).on('data', (piece: Buffer) => (seen += piece.toString('latin1')));
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n${head}\r\n\r\n`);
  });
  return () => seen;
}

test('a request changes its protocol under a rule about requests only where the rule says so', async () => {
  for (const [policy, rule] of [
    [rules(), 'upgrade_not_allowed'],
    [rules(['spdy/3.1']), 'upgrade_not_allowed'],
    [{ allow: [host], deny: [{ to: host, paths: ['/admin'] }] }, 'upgrade_not_allowed'],
    [rules(['WebSocket']), `allow[0] ${host}`],
    [{ allow: [host] }, `allow[0] ${host}`],
  ] as const) {
    await using to = await Intercepted.start({ policy });
    const server = new WebSocketServer({ server: to.originServer as never });
    server.on('connection', (socket) => socket.on('message', () => socket.close()));
    const options = { ca: to.ca, servername: host, headers: { host } };
    const client = new WebSocket(`wss://127.0.0.1:${to.port}/ws`, options).on('error', () => {});
    client.on('open', () => client.send('hello'));
    await new Promise((resolve) => void client.on('close', resolve));
    assert.equal((await to.decision(0)).rule, rule);
    server.close();
  }
});

test('a request behind a WebSocket that was agreed on reaches no server that would read it', async () => {
  await using to = await Intercepted.start({ policy: rules(['websocket']) });
  const seen = agreeing(to, `Upgrade: websocket\r\nSec-WebSocket-Accept: ${proof}`);
  const socket = await to.connect();
  socket.on('error', () => {}).write(asking('websocket'));
  assert.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 101 /);
  socket.write(`GET /admin HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  socket.resume();
  await once(socket, 'close');
  assert.equal(seen(), '');
});

test('a server that agrees to something else than it was asked for is not believed', async () => {
  for (const [protocol, head] of [
    ['websocket', 'Upgrade: websocket'],
    ['websocket', `Upgrade: raw\r\nSec-WebSocket-Accept: ${proof}`],
    ['spdy/3.1', 'Upgrade: websocket'],
  ] as const) {
    await using to = await Intercepted.start({ policy: rules(['websocket', 'spdy/3.1']) });
    agreeing(to, head);
    assert.match(await to.exchange(asking(protocol)), /^HTTP\/1\.1 502 /, head);
  }
});

test('another protocol that a rule names passes as it is', async () => {
  await using to = await Intercepted.start({ policy: rules(['spdy/3.1']) });
  const seen = agreeing(to, 'Upgrade: SPDY/3.1');
  const socket = await to.connect();
  socket.on('error', () => {}).write(asking('SPDY/3.1'));
  await once(socket, 'data');
  socket.end(Buffer.from('\x80\x03 whatever', 'latin1'));
  socket.resume();
  await once(socket, 'close');
  assert.equal(seen(), '\x80\x03 whatever');
});

test('a connection that left HTTP unwatched ends when a rule about requests comes', async () => {
  await using to = await Intercepted.start({ policy: { allow: [host] } });
  agreeing(to, 'Upgrade: websocket');
  const socket = await to.connect();
  socket.on('error', () => {}).write(asking('websocket'));
  await once(socket, 'data');
  assert.equal(to.change({ policy: rules(['websocket']) }), 1);
  socket.resume();
  await once(socket, 'close');
});
