/** Requests whose program is gone: nothing waits for them any more, in whichever way they came. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  constants,
} from 'node:http2';
import { test } from 'node:test';
import { host, Intercepted } from '../../../tests/support/intercepted.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const connections = 20;
const get = `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
/** Refused at once: its decision tells that those before it have been read. */
const refused = get.replace(host, 'other.test');

test('connections that end while the server is dialled leave nothing waiting of the requests sent ahead', async () => {
  for (const origin of ['plain', 'http/1.1'] as const) {
    await using to = await Intercepted.start({ origin, isVoid: true });
    const sockets = await Promise.all(Array.from({ length: connections }, () => to.connect()));
    for (const socket of sockets) socket.write(get.repeat(99) + refused);
    await waitFor('all to be read', () => to.decisions.length === connections);
    assert.equal(to.dialling.size, connections);
    // An end of the program's own side alone gives nothing up: see `half-closed.test.ts`.
    to.cut();
    for (const socket of sockets) socket.destroy();
    // An end of TLS may be recorded as well.
    const allowed = (): number => to.decisions.filter(({ rule }) => rule.startsWith('allow')).length;
    await waitFor('every request to be settled', () => allowed() === connections * 99);
    await Promise.all(to.running);
    assert.equal(to.dialling.size, 0);
  }
});

test('a WebSocket whose connection ends while the server is dialled is given up', async () => {
  await using to = await Intercepted.start({ origin: 'plain', isVoid: true });
  const socket = await to.connect();
  socket.write(get.replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'));
  await waitFor('the dial', () => to.dialling.size === 1);
  to.cut();
  await to.decision(0);
  assert.equal(to.dialling.size, 0);
});

async function http2(to: Intercepted): Promise<ClientHttp2Session> {
  const socket = await to.connect(['h2']);
  return connectHttp2(`https://${host}`, { createConnection: () => socket }).on('error', () => {});
}

function open(session: ClientHttp2Session, count: number): ClientHttp2Stream[] {
  return Array.from({ length: count }, () => session.request({ ':path': '/' }).on('error', () => {}));
}

async function sent(stream: ClientHttp2Stream): Promise<void> {
  if (stream.pending) await once(stream, 'ready');
}

test('streams of HTTP/2 that are given up leave nothing waiting, and the session goes on', async () => {
  await using to = await Intercepted.start({ origin: 'h2', isVoid: true });
  const session = await http2(to);
  for (const round of [1, 2, 3]) {
    const streams = open(session, 100);
    await Promise.all(streams.map(sent));
    await waitFor('the dial', () => to.dialling.size === 1);
    for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL);
    // More than the connection may have at once, unless those that were given up are settled.
    await waitFor('every request to be settled', () => to.decisions.length === round * 100);
  }
  assert.equal(session.destroyed, false);
  session.destroy();
  await Promise.all(to.running);
  assert.equal(to.dialling.size, 0);
});

test('streams of HTTP/2 that give up their turn at a server of HTTP/1.1 leave it to the next', async () => {
  await using to = await Intercepted.start({
    origin: 'http/1.1',
    handler: (_, response) => void response.write('x'),
  });
  const session = await http2(to);
  const served = open(session, 32);
  await Promise.all(served.map((stream) => once(stream, 'response')));
  const waiting = open(session, 50);
  const [last = assert.fail()] = open(session, 1);
  for (const stream of waiting) stream.close(constants.NGHTTP2_CANCEL);
  await waitFor('those that wait to be settled', () => to.decisions.length === waiting.length);
  served[0]?.close(constants.NGHTTP2_CANCEL);
  await once(last, 'response');
  session.destroy();
});
