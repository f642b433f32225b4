/** No first bytes pass for something else than a server could take them for; real hellos in any pieces are read. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import fc from 'fast-check';
import { readFirstBytes } from './first-bytes.ts';

/** What this OpenSSL sends first. */
async function realHello(options: ConnectionOptions): Promise<Buffer> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  const client = connectTls({ host: '127.0.0.1', port: address.port, ...options });
  client.on('error', () => undefined);
  const [socket] = (await once(server, 'connection')) as [Socket];
  const [first] = (await once(socket, 'data')) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return first;
}

/** The same handshake in records of the given sizes. */
function split(hello: Buffer, sizes: readonly number[]): Buffer {
  const handshake = hello.subarray(5, 5 + hello.readUInt16BE(3));
  const records: Buffer[] = [];
  for (let at = 0, index = 0; at < handshake.length; index += 1) {
    const part = handshake.subarray(at, at + Math.max(1, sizes[index % sizes.length] ?? 1));
    records.push(Buffer.from([22, 3, 1, part.length >>> 8, part.length & 0xff]), part);
    at += part.length;
  }
  return Buffer.concat(records);
}

/** A hello with these extensions and nothing else of interest. */
function hello(extensions: readonly (readonly [type: number, data: readonly number[]])[]): Buffer {
  const u16 = (value: number): number[] => [value >>> 8, value & 0xff];
  const list = extensions.flatMap(([type, data]) => [...u16(type), ...u16(data.length), ...data]);
  const random = Array.from({ length: 32 }, () => 7);
  const body = [3, 3, random, 0, u16(2), 0x13, 1, 1, 0, u16(list.length), list].flat();
  const message = [1, 0, ...u16(body.length), ...body];
  return Buffer.from([22, 3, 1, ...u16(message.length), ...message]);
}

function nameExtension(name: string): readonly [number, number[]] {
  const bytes = [...Buffer.from(name, 'latin1')];
  return [0, [0, bytes.length + 3, 0, 0, bytes.length, ...bytes]];
}

test('a real ClientHello is read in any records and any pieces', async () => {
  const whole = await realHello({ servername: 'Www.Example.com' });
  const expected = { kind: 'tls', serverName: 'www.example.com', hasEch: false };
  assert.deepEqual(readFirstBytes(whole, false), expected);
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 5 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (sizes, share) => {
        const records = split(whole, sizes);
        assert.deepEqual(readFirstBytes(records, false), expected);
        const cut = Math.floor(share * (records.length - 1));
        const part = readFirstBytes(records.subarray(0, cut), false);
        assert.ok(part.kind === 'more' && part.bytesMin > cut && part.bytesMin <= records.length);
        const last = readFirstBytes(records.subarray(0, cut), true).kind;
        assert.equal(last, cut === 0 ? 'silent' : 'unfinished');
      },
    ),
  );
});

test('a real ClientHello without a name says so', async () => {
  const whole = await realHello({ servername: '' });
  assert.deepEqual(readFirstBytes(whole, false), { kind: 'tls', serverName: undefined, hasEch: false });
});

test('a ClientHello with early data behind it is read', async () => {
  const whole = await realHello({ servername: 'a.b' });
  const more = Buffer.concat([whole, Buffer.from([20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 9])]);
  assert.equal((readFirstBytes(more, false) as { serverName: string }).serverName, 'a.b');
});

test('a hello with two names, odd names, or a hidden one is no plain name', () => {
  const nameOf = (bytes: Buffer) => readFirstBytes(bytes, false);
  const good = nameExtension('a.example');
  assert.deepEqual(nameOf(hello([good])), { kind: 'tls', serverName: 'a.example', hasEch: false });
  assert.deepEqual(nameOf(hello([nameExtension('a.example.')])), nameOf(hello([good])));
  const nothing = { kind: 'tls', serverName: undefined, hasEch: false };
  for (const extensions of [
    [good, good],
    [nameExtension('')],
    [nameExtension('10.0.0.1')],
    [nameExtension('a.example\0.evil.example')],
    [nameExtension('a example')],
    [[0, [0, 9, 1, 0, 6, 97, 98, 99, 46, 97, 98]] as const],
    [[0, []] as const],
  ]) {
    assert.deepEqual(nameOf(hello(extensions)), nothing);
  }
  assert.deepEqual(nameOf(hello([good, [0xfe0d, [0]]])), {
    kind: 'tls',
    serverName: 'a.example',
    hasEch: true,
  });
});

test('any bytes behind a TLS record header are read without harm', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), fc.boolean(), (bytes, isLast) => {
      const found = readFirstBytes(Uint8Array.from([22, 3, 1, ...bytes]), isLast);
      assert.ok(found.kind === 'tls' || (found.kind === 'more') !== isLast);
    }),
    { numRuns: 2_000 },
  );
});

test('a hello with any bytes changed is read without harm', () => {
  const good = hello([nameExtension('a.example'), [0xfe0d, [1, 2, 3]]]);
  const change = fc.record({ at: fc.nat(good.length - 1), to: fc.nat(255) });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 4 }), (changes) => {
      const bytes = Uint8Array.from(good);
      for (const { at, to } of changes) bytes[at] = to;
      readFirstBytes(bytes, false);
    }),
    { numRuns: 2_000 },
  );
});

test('SSL 2 hellos count as TLS without a name', () => {
  assert.deepEqual(readFirstBytes(Uint8Array.of(0x80, 0x2e, 1, 3, 1, 0, 0x15), false), {
    kind: 'tls',
    serverName: undefined,
    hasEch: false,
  });
});

test('records ahead of a hello are TLS without a name', () => {
  for (const type of [20, 21, 23, 24]) {
    const first = readFirstBytes(Uint8Array.of(type, 3, 1, 0, 2, 1, 90, 22, 3, 1), false);
    assert.deepEqual(first, { kind: 'tls', serverName: undefined, hasEch: false });
  }
});

test('everything a server may take for a request is HTTP', () => {
  for (const text of [
    'GET / HTTP/1.1\r\n',
    '\r\n\r\n \tGET / HTTP/1.1\r\n',
    'get / HTTP/1.0\n',
    'PROPFIND\t/x\tHTTP/1.1\r\n',
    'CONNECT evil.example:443 HTTP/1.1\r\n',
    'GET http://evil.example/ HTTP/1.1',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'GET /\r\n',
    'GET\v/x\fHTTP/1.1\r\n',
    'GET\r/x\rHTTP/1.1\r\n',
    'GET\u00a0/x HTTP/1.1\r\n',
    'GET /x and more HTTP/1.1\r\n',
    'GET /x http/1.1\r\n',
    '\vGET /x HTTP/1.1\r\n',
    '\u00ef\u00bb\u00bfGET /x HTTP/1.1\r\n',
  ]) {
    assert.deepEqual(
      readFirstBytes(Buffer.from(text, 'latin1'), false),
      { kind: 'http' },
      JSON.stringify(text),
    );
  }
});

test('text that may still become a request is waited for', () => {
  for (const text of ['\r\nGET /index.html HTTP/1.1', 'GET\v/a b http/1.1']) waitsFor(text);
});

function waitsFor(text: string): void {
  for (let length = 1; length < text.toUpperCase().indexOf('HTTP/') + 5; length += 1) {
    const bytes = Buffer.from(text.slice(0, length));
    assert.equal(readFirstBytes(bytes, false).kind, 'more', JSON.stringify(text.slice(0, length)));
    assert.equal(readFirstBytes(bytes, true).kind, 'unfinished');
  }
}

test('other protocols are told at their first line', () => {
  for (const text of [
    'SSH-2.0-OpenSSH_9.2\r\n',
    'EHLO sandbox.example\r\n',
    '*1\r\n$4\r\nPING\r\n',
    '\0\0\0\x08\x04\xd2\x16\x2f',
    '\x10\x0c\0\x04MQTT',
    'USER a\r\n',
    '10.0.0.1 - - "GET /x HTTP/1.1" 200\r\n',
    '{"request":"GET /x HTTP/1.1"}\n',
  ]) {
    assert.deepEqual(readFirstBytes(Buffer.from(text, 'latin1'), false), { kind: 'other' }, text);
  }
});

test('any bytes are told to be something', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      assert.notEqual(readFirstBytes(bytes, true).kind, 'more');
    }),
    { numRuns: 2_000 },
  );
});

test('white space without end is read in a time that grows with its length only', () => {
  const began = performance.now();
  for (const space of ['\t', '\v', '\f', '\r', ' ', '\u0085', '\u00a0', ' \t']) {
    for (const [first, last] of [
      ['a', '\n'],
      ['GET', ''],
      ['GET', ' x\n'],
      ['', 'a\n'],
      ['GET', ' HTTP'],
    ]) {
      const bytes = Buffer.from(`${first}${space.repeat(16_370)}${last}`.slice(0, 16_384), 'latin1');
      readFirstBytes(bytes, false);
    }
  }
  // Forty times a few tenths of a millisecond. With an expression that may part the space anywhere, one of them was seconds.
  assert.ok(performance.now() - began < 1_000, `${performance.now() - began} ms`);
});
