/** Bodies of every kind in both directions: events, trailers, compression, uploads larger than memory, WebSocket. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  createServer as createHttp2Server,
} from 'node:http2';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { buffer, text as textOf } from 'node:stream/consumers';
import { test } from 'node:test';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { type ClientOptions, type RawData, WebSocket, WebSocketServer } from 'ws';
import {
  bodyOf,
  type Echo,
  everySurface,
  foreignSecret,
  host,
  Intercepted,
  type InterceptedOptions,
  key,
  oneSecret,
} from '../../../tests/support/intercepted.ts';

function request(to: Intercepted, options: RequestOptions): ReturnType<typeof httpsRequest> {
  const { headers, ...rest } = options;
  return httpsRequest({
    host: '127.0.0.1',
    port: to.port,
    servername: host,
    ca: to.ca,
    agent: false,
    headers: { host, ...(headers as Record<string, string>) },
    ...rest,
  });
}

async function answerTo(sent: ReturnType<typeof httpsRequest>): Promise<IncomingMessage> {
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return answer;
}

async function http2(to: Intercepted): Promise<ClientHttp2Session> {
  const socket = await to.connect(['h2']);
  return connectHttp2(`https://${host}`, { createConnection: () => socket });
}

const kinds: readonly InterceptedOptions[] = [{ origin: 'http/1.1' }, { origin: 'h2' }];

test('a server-sent event arrives when it is sent, not with the next one, and a value in it is turned back', async () => {
  for (const kind of kinds) {
    let send: (text: string) => void = () => {};
    await using to = await Intercepted.start({
      ...kind,
      secrets: oneSecret,
      handler: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        send = (text) => void response.write(text);
        send('data: first\n\n');
      },
    });
    const session = kind.origin === 'h2' ? await http2(to) : undefined;
    const stream = session?.request({ ':path': '/' }) ?? (await answerTo(request(to, {}).end()));
    const pieces = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    const next = async (): Promise<string> => String((await pieces.next()).value);
    assert.equal(await next(), 'data: first\n\n');
    send(`data: ${key.value}\n\n`);
    assert.equal(await next(), `data: ${key.placeholder}\n\n`);
    // Cut within the value by less than a pause.
    send(`data: x${key.value.slice(0, 12)}`);
    setImmediate(send, `${key.value.slice(12)}\n\n`);
    assert.equal(await next(), `data: x${key.placeholder}\n\n`);
    session?.destroy();
    stream.destroy();
  }
});

test('compressed answers are read, and come back plain with placeholders', async () => {
  const plain = `${'x'.repeat(50_000)}${key.value}${'y'.repeat(50_000)}`;
  for (const [coding, compressed] of [
    ['gzip', gzipSync(plain)],
    ['deflate', deflateSync(plain)],
    ['deflate', deflateRawSync(plain)],
    ['br', brotliCompressSync(plain)],
    ['zstd', zstdCompressSync(plain)],
    ['identity', Buffer.from(plain)],
  ] as const) {
    let asked: string | undefined;
    await using to = await Intercepted.start({
      secrets: oneSecret,
      handler: (incoming, response) => {
        asked = incoming.headers['accept-encoding'];
        response.writeHead(200, {
          'content-type': 'text/plain',
          'content-encoding': coding,
          'content-length': compressed.length,
        });
        response.end(compressed);
      },
    });
    const answer = await answerTo(
      request(to, { headers: { 'accept-encoding': 'gzip, br;q=0.9, zstd, sdch, *' } }).end(),
    );
    assert.equal(await textOf(answer), plain.replace(key.value, key.placeholder));
    assert.equal(answer.headers['content-encoding'], coding === 'identity' ? 'identity' : undefined);
    assert.equal(asked, 'gzip');
  }
});

test('raw deflate of any size and in any pieces is read, and what is none is not taken for it', async () => {
  const plain = randomBytes(300_000).toString('hex') + 'x'.repeat(3_000_000);
  const whole = deflateRawSync(plain);
  await using to = await Intercepted.start({
    secrets: oneSecret,
    handler: (incoming, response) => {
      response.writeHead(200, { 'content-type': 'text/plain', 'content-encoding': 'deflate' });
      if (incoming.url === '/none') return void response.end(Buffer.from([0xff, 0xff, 0xff]));
      if (incoming.url === '/more')
        return void response.end(Buffer.concat([deflateRawSync('x'), Buffer.from('more')]));
      if (incoming.url === '/empty') return void response.end();
      response.write(whole.subarray(0, 1));
      setTimeout(() => response.end(whole.subarray(1)), 20);
    },
  });
  const ask = (path: string) =>
    answerTo(request(to, { path, headers: { 'accept-encoding': 'deflate' } }).end());
  assert.equal(await textOf(await ask('/')), plain);
  assert.equal(await textOf(await ask('/empty')), '');
  await assert.rejects(textOf(await ask('/none')));
  await assert.rejects(textOf(await ask('/more')));
});

test('messages that are compressed one by one are asked for plain, and refused where they have to be looked at', async () => {
  for (const name of ['grpc', 'connect']) {
    const coding = name === 'grpc' ? 'grpc-encoding' : 'connect-content-encoding';
    let accepted: unknown;
    await using to = await Intercepted.start({
      secrets: foreignSecret,
      handler: (incoming, response) => {
        accepted = incoming.headers[`${name}-accept-encoding`];
        response.writeHead(200, incoming.url === '/coded' ? { [coding]: 'gzip' } : {}).end('x');
      },
    });
    const send = async (path: string, headers: Record<string, string>) =>
      (await answerTo(request(to, { path, method: 'POST', headers }).end('body'))).statusCode;
    assert.equal(await send('/', { [`${name}-accept-encoding`]: 'gzip, identity' }), 200);
    assert.equal(accepted, 'identity');
    assert.equal(await send('/', { [coding]: 'gzip' }), 403);
    assert.equal(await send('/', { [coding]: 'identity' }), 200);
    assert.equal(await send('/coded', {}), 502);
  }
});

test('a compressed file for a program that asked for none is passed unchanged, and broken off where it holds a value', async () => {
  const clean = gzipSync('x'.repeat(100_000));
  const dirty = gzipSync(
    `${randomBytes(200_000).toString('hex')}${key.value}${randomBytes(200_000).toString('hex')}`,
  );
  await using to = await Intercepted.start({
    secrets: oneSecret,
    handler: (incoming, response) => {
      const body = incoming.url === '/clean' ? clean : dirty;
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': body.length });
      response.end(body);
    },
  });
  const answer = await answerTo(request(to, { path: '/clean' }).end());
  assert.ok((await buffer(answer)).equals(clean));
  const broken = await answerTo(request(to, { path: '/dirty' }).end());
  await assert.rejects(buffer(broken));
});

test('short texts keep a length, downloads keep theirs', async () => {
  const file = Buffer.concat([randomBytes(100_000), Buffer.from(key.value), randomBytes(100_000)]);
  await using to = await Intercepted.start({
    secrets: oneSecret,
    handler: (incoming, response) => {
      const [type, body] =
        incoming.url === '/text'
          ? ['application/json', Buffer.from(`{"k":"${key.value}"}`)]
          : ['application/octet-stream', file];
      response.writeHead(200, { 'content-type': type, 'content-length': body.length });
      response.end(body);
    },
  });
  const short = await answerTo(request(to, { path: '/text' }).end());
  const shortText = await textOf(short);
  assert.equal(shortText, `{"k":"${key.placeholder}"}`);
  assert.equal(short.headers['content-length'], String(shortText.length));
  const long = await answerTo(request(to, { path: '/file' }).end());
  assert.equal(long.headers['content-length'], String(file.length));
  const got = await buffer(long);
  const fitted = key.placeholder.padEnd(key.value.length, '.').slice(0, key.value.length);
  assert.equal(got.length, file.length);
  assert.ok(got.includes(fitted) && !got.includes(key.value));
});

test('an answer that breaks off does so for the program', async () => {
  for (const kind of kinds) {
    await using to = await Intercepted.start({
      ...kind,
      handler: (_request, response) => {
        response.writeHead(200);
        response.write('x', () =>
          'stream' in response
            ? (response.stream as Readable).destroy(new Error('broken'))
            : response.destroy(),
        );
      },
    });
    const session = kind.origin === 'h2' ? await http2(to) : undefined;
    const stream = session?.request({ ':path': '/' }) ?? (await answerTo(request(to, {}).end()));
    await assert.rejects(buffer(stream));
    session?.destroy();
  }
});

test('a program that gives up a request gives it up at the server', async () => {
  for (const kind of kinds) {
    const closed = Promise.withResolvers<void>();
    await using to = await Intercepted.start({
      ...kind,
      handler: (_request, response) => {
        response.on('close', closed.resolve);
        response.writeHead(200);
        response.write('x');
      },
    });
    const session = kind.origin === 'h2' ? await http2(to) : undefined;
    const stream = session?.request({ ':path': '/' }) ?? (await answerTo(request(to, {}).end()));
    await once(stream, 'data');
    if (session === undefined) stream.destroy();
    else session.destroy();
    await closed.promise;
    // Everything the connection held is let go of by itself.
    await Promise.all(to.running);
  }
});

test('a request with Expect waits for the server’s word, and hears a refusal without sending its body', async () => {
  for (const secrets of [{ secrets: {} }, everySurface]) {
    await using to = await Intercepted.start({ secrets });
    to.originServer?.on('checkContinue', (incoming: IncomingMessage, response) => {
      if (incoming.url === '/no') response.writeHead(417).end();
      else {
        response.writeContinue();
        to.originServer?.emit('request', incoming, response);
      }
    });
    const sent = request(to, { method: 'POST', headers: { expect: '100-continue', 'content-length': '5' } });
    sent.flushHeaders();
    await once(sent, 'continue');
    sent.end('hello');
    assert.equal(bodyOf(JSON.parse(await textOf(await answerTo(sent))) as Echo), 'hello');
    const refused = request(to, {
      method: 'POST',
      path: '/no',
      headers: { expect: '100-continue', 'content-length': '5' },
    });
    refused.flushHeaders();
    const answer = await answerTo(refused);
    assert.equal(answer.statusCode, 417);
    assert.equal(answer.headers.connection, 'close');
    refused.destroy();
  }
});

test('trailers pass in both directions, and values in them are turned back', async () => {
  await using to = await Intercepted.start({
    secrets: oneSecret,
    handler: (incoming, response) => {
      incoming.resume().on('end', () => {
        response.writeHead(200, { trailer: 'x-sum' });
        response.write('body');
        response.addTrailers({ 'x-sum': `${incoming.trailers['x-up']} ${key.value}` });
        response.end();
      });
    },
  });
  const sent = request(to, { method: 'POST', headers: { 'transfer-encoding': 'chunked' } });
  sent.write('x');
  sent.addTrailers({ 'x-up': 'from-below' });
  sent.end();
  const answer = await answerTo(sent);
  assert.equal(await textOf(answer), 'body');
  assert.equal(answer.trailers['x-sum'], `from-below ${key.placeholder}`);
});

test('gRPC works: both sides stream at once, the status comes in trailers, also alone', async () => {
  const server = createHttp2Server();
  server.on('stream', (stream, headers) => {
    if (headers[':path'] === '/only-trailers') {
      stream.respond(
        { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '12' },
        { endStream: true },
      );
      return;
    }
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', te: String(headers['te']) }));
    stream.on('data', (piece: Buffer) => stream.write(`got ${piece.toString()}`));
    stream.on('end', () => stream.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await using to = await Intercepted.start({ origin: 'plain', handler: () => {}, secrets: oneSecret });
  to.originPort = port;
  const socket = await to.connect();
  const session = connectHttp2(`http://${host}`, { createConnection: () => socket });
  const call = session.request({
    ':method': 'POST',
    ':path': '/call',
    te: 'trailers',
    'content-type': 'application/grpc',
  });
  call.setEncoding('utf8');
  for (const word of ['one', 'two', 'three']) {
    call.write(word);
    assert.equal((await once(call, 'data'))[0], `got ${word}`);
  }
  call.end();
  const [trailers] = await once(call, 'trailers');
  assert.equal(trailers['grpc-status'], '0');
  const only = session.request({ ':method': 'POST', ':path': '/only-trailers', te: 'trailers' });
  only.end();
  const [headers, flags] = await once(only, 'response');
  assert.equal(headers['grpc-status'], '12');
  assert.equal(flags & 1, 1, 'the head is the end');
  assert.equal(to.dialled.length, 1);
  session.destroy();
  await Promise.all(to.running);
  server.close();
});

test('many streams of one HTTP/2 connection share one to the server, or a few where it speaks HTTP/1.1', async () => {
  for (const kind of kinds) {
    await using to = await Intercepted.start({ ...kind, secrets: oneSecret });
    const session = await http2(to);
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, at) => {
        const stream = session.request({ ':path': `/${at}`, 'x-key': key.placeholder });
        return (JSON.parse(await textOf(stream)) as Echo).url;
      }),
    );
    assert.deepEqual(
      answers,
      Array.from({ length: 100 }, (_, at) => `/${at}`),
    );
    assert.ok(to.dialled.length <= (kind.origin === 'h2' ? 1 : 32), `${to.dialled.length} connections`);
    session.destroy();
  }
});

test('an upload of 1 GB and a download of 256 MB pass in constant memory, with every surface looked through', {
  timeout: 300_000,
}, async () => {
  const piece = Buffer.alloc(65_536, 'abcdefghijklmnop');
  const pieces = 16_384;
  let received = 0;
  await using to = await Intercepted.start({
    secrets: everySurface,
    handler: (incoming, response) => {
      if (incoming.method === 'GET') {
        response.writeHead(200, { 'content-type': 'text/plain' });
        Readable.from(many(piece, pieces / 4)).pipe(response);
        return;
      }
      incoming.on('data', (each: Buffer) => {
        received += each.length;
      });
      incoming.on('end', () => response.end('done'));
    },
  });
  global.gc?.();
  const before = process.memoryUsage.rss();
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss());
  }, 20);
  const sent = request(to, { method: 'POST', headers: { 'content-length': String(piece.length * pieces) } });
  Readable.from(many(piece, pieces)).pipe(sent);
  assert.equal(await textOf(await answerTo(sent)), 'done');
  assert.equal(received, piece.length * pieces);
  let got = 0;
  for await (const each of await answerTo(request(to, {}).end())) got += (each as Buffer).length;
  assert.equal(got, (piece.length * pieces) / 4);
  clearInterval(watch);
  // Client, interceptor and server together: a tenth of what passed would be far more than buffers.
  assert.ok(most - before < 200 * 1_048_576, `${Math.round((most - before) / 1_048_576)} MiB more`);
});

function* many(piece: Buffer, count: number): Generator<Buffer> {
  for (let at = 0; at < count; at += 1) yield piece;
}

function webSocket(to: Intercepted, headers: Record<string, string>): WebSocket {
  const options: ClientOptions & { servername: string } = {
    ca: to.ca,
    servername: host,
    headers: { host, ...headers },
  };
  return new WebSocket(`wss://127.0.0.1:${to.port}/ws`, options);
}

const wordsOf = (data: RawData): string => (data as Buffer).toString();

test('WebSocket messages pass both ways: values go in where bodies may have them, and come back as placeholders', async () => {
  for (const secrets of [everySurface, { secrets: {} }]) {
    await using to = await Intercepted.start({ secrets });
    const server = new WebSocketServer({ server: to.originServer as never, perMessageDeflate: true });
    const heads: IncomingMessage[] = [];
    server.on('connection', (socket, incoming) => {
      heads.push(incoming);
      socket.on('message', (data, isBinary) =>
        socket.send(isBinary ? data : `[${wordsOf(data)}] ${(data as Buffer).length}`),
      );
    });
    const client = webSocket(to, { authorization: `Bearer ${key.placeholder}` });
    await once(client, 'open');
    const hasSecret = secrets === everySurface;
    assert.equal(heads[0]?.headers.authorization, `Bearer ${hasSecret ? key.value : key.placeholder}`);
    assert.equal(client.extensions, hasSecret ? '' : 'permessage-deflate');
    client.send(`hello ${key.placeholder}`);
    const sentLength = 6 + (hasSecret ? key.value : key.placeholder).length;
    assert.equal(String((await once(client, 'message'))[0]), `[hello ${key.placeholder}] ${sentLength}`);
    const big = randomBytes(1_000_000);
    client.send(big);
    assert.ok(big.equals((await once(client, 'message'))[0] as Buffer));
    client.ping('p');
    assert.equal(String((await once(client, 'pong'))[0]), 'p');
    client.close(1000, 'bye');
    const [code] = await once(client, 'close');
    assert.equal(code, 1000);
    server.close();
    await Promise.all(to.running);
    assert.equal((await to.decision(0)).verdict, 'allowed');
  }
});

test('a placeholder in a WebSocket message for a host that may not have it ends the connection before it has arrived', async () => {
  await using to = await Intercepted.start({ secrets: foreignSecret });
  const server = new WebSocketServer({ server: to.originServer as never });
  const messages: string[] = [];
  server.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.on('message', (data) => messages.push(wordsOf(data)));
  });
  const client = webSocket(to, {});
  await once(client, 'open');
  client.send(key.placeholder.slice(0, 8), { fin: false });
  client.ping();
  client.send(key.placeholder.slice(8), { fin: true });
  const [code, reason] = await once(client, 'close');
  assert.equal(code, 1008);
  assert.match(String(reason), /placeholder/);
  assert.deepEqual(messages, []);
  const { verdict, rule } = await to.decision(0);
  assert.deepEqual({ verdict, rule }, { verdict: 'blocked', rule: 'placeholder_elsewhere' });
  server.close();
});
