/**
 * Messages that two readers could read in two ways: each is refused, or reaches the server as exactly one request. The
 * server's side is raw TCP, so that what is seen is what was written, not what some parser made of it.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { host, Intercepted, key, oneSecret } from '../../../tests/support/intercepted.ts';

/** Answers every head with an empty 200 and keeps what it got. */
async function rawOrigin(): Promise<{ port: number; seen: () => string } & AsyncDisposable> {
  let seen = '';
  const server = createServer((socket) => {
    let pending = '';
    socket.on('error', () => {});
    socket.setEncoding('latin1').on('data', (piece: string) => {
      seen += piece;
      pending += piece;
      for (let at = pending.indexOf('\r\n\r\n'); at >= 0; at = pending.indexOf('\r\n\r\n')) {
        const isHead = /^[A-Z]+ /.test(pending);
        pending = pending.slice(at + 4);
        if (isHead) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
      }
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async (): Promise<void> => {
    server.close();
    await Promise.resolve();
  };
  return { port: (server.address() as AddressInfo).port, seen: () => seen, [Symbol.asyncDispose]: close };
}

async function plainTo(port: number, secrets: unknown = { secrets: {} }): Promise<Intercepted> {
  const to = await Intercepted.start({ origin: 'plain', secrets });
  to.originPort = port;
  return to;
}

const refused: readonly [what: string, text: string][] = [
  [
    'a length beside chunks',
    `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    'chunks beside a length',
    `POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
  ],
  [
    'two equal lengths',
    `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello`,
  ],
  [
    'two different lengths',
    `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello`,
  ],
  ['a list of lengths', `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 5, 5\r\n\r\nhello`],
  ['a length with a sign', `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: +5\r\n\r\nhello`],
  ['a hexadecimal length', `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 0x5\r\n\r\nhello`],
  [
    'an unknown transfer coding',
    `POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    'a transfer coding before chunked',
    `POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    'chunked twice',
    `POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ['chunks in HTTP/1.0', `POST / HTTP/1.0\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['a folded header', `GET / HTTP/1.1\r\nHost: ${host}\r\nX: a\r\n b\r\n\r\n`],
  ['bare line feeds', `GET / HTTP/1.1\nHost: ${host}\n\n`],
  ['one bare line feed', `GET / HTTP/1.1\r\nHost: ${host}\nX: y\r\n\r\n`],
  ['a bare carriage return', `GET / HTTP/1.1\r\nHost: ${host}\r\nX: a\rb\r\n\r\n`],
  ['a space before the colon', `GET / HTTP/1.1\r\nHost : ${host}\r\n\r\n`],
  ['a null byte in a header', `GET / HTTP/1.1\r\nHost: ${host}\r\nX: a\0b\r\n\r\n`],
  [
    'a chunk size with a bare line feed',
    `POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n`,
  ],
  ['two hosts', `GET / HTTP/1.1\r\nHost: ${host}\r\nHost: ${host}\r\n\r\n`],
  ['another host in the target', `GET http://other.test/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`],
  ['a fragment', `GET /a#b HTTP/1.1\r\nHost: ${host}\r\n\r\n`],
  ['HTTP/0.9', 'GET /\r\n\r\n'],
  ['HTTP/2.0 in words', `GET / HTTP/2.0\r\nHost: ${host}\r\n\r\n`],
  ['a tunnel', `CONNECT ${host}:80 HTTP/1.1\r\nHost: ${host}:80\r\n\r\n`],
];

test('every ambiguous message is refused and nothing of it reaches the server', async () => {
  await using origin = await rawOrigin();
  for (const [what, text] of refused) {
    await using to = await plainTo(origin.port);
    const answer = await to.exchange(text);
    assert.match(answer, /^HTTP\/1\.1 40[03] /, what);
    // A request whose head is good goes out before its body turns out to be bad, and is then broken off.
    if (!what.startsWith('a chunk size')) assert.equal(origin.seen(), '', what);
    const { verdict } = await to.decision(0);
    if (!what.startsWith('a chunk size')) assert.equal(verdict, 'denied', what);
  }
  assert.doesNotMatch(origin.seen(), /0\r\n\r\n$/, 'a bad body arrived as a whole one');
});

test('a pipelined second request is judged by itself, and chunk extensions do not reach the server', async () => {
  await using origin = await rawOrigin();
  await using to = await Intercepted.start({
    origin: 'plain',
    policy: { allow: [{ to: host, paths: ['/ok'] }] },
  });
  to.originPort = origin.port;
  const socket = await to.connect();
  let answer = '';
  socket.setEncoding('latin1').on('data', (piece: string) => {
    answer += piece;
  });
  socket.write(
    `POST /ok HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n3;ext="GET /no"\r\nabc\r\n0\r\n\r\n` +
      `GET /no HTTP/1.1\r\nHost: ${host}\r\n\r\nGET /ok/2 HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
  );
  await to.decision(2);
  while (answer.split('HTTP/1.1 ').length < 4) await once(socket, 'data');
  assert.deepEqual(
    answer
      .split('HTTP/1.1 ')
      .slice(1)
      .map((each) => each.slice(0, 3)),
    ['200', '403', '200'],
  );
  assert.doesNotMatch(origin.seen(), /ext=|\/no/);
  socket.destroy();
});

test('headers that Connection names as belonging to the hop can not take away how the message is framed', async () => {
  await using origin = await rawOrigin();
  await using to = await plainTo(origin.port);
  await to.exchange(
    `POST / HTTP/1.1\r\nHost: ${host}\r\nConnection: content-length, x-hop\r\nContent-Length: 5\r\nX-Hop: 1\r\n\r\nhello`,
  );
  assert.match(origin.seen(), /Content-Length: 5\r\n/i);
  assert.doesNotMatch(origin.seen(), /x-hop/i);
});

test('whatever bytes come, what reaches the server are requests to the one host, without a placeholder', async () => {
  await using origin = await rawOrigin();
  const token = fc.constantFrom(
    'GET ',
    'POST ',
    '/ ',
    '/a?b ',
    `http://${host}/ `,
    'http://other.test/ ',
    'HTTP/1.1\r\n',
    'HTTP/1.0\r\n',
    `Host: ${host}\r\n`,
    'Host: other.test\r\n',
    'Content-Length: 3\r\n',
    'Transfer-Encoding: chunked\r\n',
    'Connection: upgrade\r\n',
    'Upgrade: x\r\n',
    'Expect: 100-continue\r\n',
    `X: ${key.placeholder}\r\n`,
    '\r\n',
    '\n',
    '\r',
    ' ',
    '3\r\nabc\r\n',
    '0\r\n\r\n',
    'abc',
    key.placeholder,
  );
  const message = fc.array(fc.oneof({ weight: 9, arbitrary: token }, fc.string({ maxLength: 4 })), {
    maxLength: 16,
  });
  const start = fc.constantFrom(
    '',
    `GET / HTTP/1.1\r\nHost: ${host}\r\n`,
    `POST /p HTTP/1.1\r\nHost: ${host}\r\n`,
  );
  const elsewhere = { secrets: { KEY: { ...key, allowed_hosts: ['elsewhere.test'] } } };
  assert.notDeepEqual(elsewhere, oneSecret);
  await using to = await plainTo(origin.port, elsewhere);
  await fc.assert(
    fc.asyncProperty(start, message, async (head, tokens) => {
      const socket = await to.connect();
      socket.on('error', () => {}).resume();
      socket.write(Buffer.from(head + tokens.join(''), 'latin1'));
      // An end gives up what is under way, so a whole request gets the time to be answered; others wait for more.
      const signal = AbortSignal.timeout(25);
      await Promise.race([once(socket, 'data', { signal }), once(socket, 'close', { signal })]).catch(
        () => {},
      );
      socket.end();
      const stuck = setTimeout(() => socket.destroy(new Error('the connection was left open')), 10_000);
      if (!socket.closed) await once(socket, 'close');
      clearTimeout(stuck);
      assert.equal(socket.errored?.message, undefined);
    }),
    { numRuns: 400 },
  );
  await Promise.all(to.running);
  const seen = origin.seen();
  assert.ok(seen.includes('GET / HTTP/1.1'), 'nothing reached the server at all');
  assert.ok(!seen.includes(key.placeholder));
  assert.ok(!/other\.test/i.test(seen.replaceAll(/^(?![A-Z]+ |host:).*$/gim, '')));
  for (const [, value] of seen.matchAll(/^host: (.*)\r$/gim)) assert.equal(value, host);
});
