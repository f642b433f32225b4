/** No bytes a sandbox can send break the codec, and what it answers is read by another implementation: c-ares. */
import assert from 'node:assert/strict';
import dgram from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { test } from 'node:test';
import fc from 'fast-check';
import { queryFor } from '../../../tests/support/name-server.ts';
import {
  encodeAnswer,
  encodeRefusal,
  parseQuery,
  recordTypes,
  responseCodes,
  udpBytesMax,
} from './message.ts';
import { hostName, reverseAddress } from './name.ts';

test('parseQuery() survives any bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), (message) => {
      const parsed = parseQuery(message);
      if (parsed.kind === 'query') encodeAnswer(parsed.query, { code: 0, records: [] }, 512);
    }),
    { numRuns: 2_000 },
  );
});

test('parseQuery() survives a query with any bytes changed', () => {
  const good = queryFor('www.example.com', recordTypes.A, 1232);
  const change = fc.record({ at: fc.nat(good.length - 1), to: fc.nat(255) });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 4 }), fc.nat(good.length), (changes, length) => {
      const message = Uint8Array.from(good);
      for (const { at, to } of changes) message[at] = to;
      const parsed = parseQuery(message.subarray(0, length));
      if (parsed.kind !== 'query') return;
      const answer = encodeAnswer(parsed.query, { code: 0, records: [] }, 512);
      assert.ok(answer.length <= 512);
    }),
    { numRuns: 2_000 },
  );
});

test('parseQuery() refuses pointers, several questions, and does not answer answers', () => {
  const pointer = queryFor('a.b', 1);
  pointer.set([0xc0, 0x0c], 12);
  assert.deepEqual(parseQuery(pointer), { kind: 'refuse', id: 0x1234, code: responseCodes.formatError });
  const two = queryFor('a.b', 1);
  two[5] = 2;
  assert.equal(parseQuery(two).kind, 'refuse');
  const answer = queryFor('a.b', 1);
  answer[2] = 0x81;
  assert.equal(parseQuery(answer).kind, 'drop');
  const update = queryFor('a.b', 1);
  update[2] = 5 << 3;
  assert.deepEqual(parseQuery(update), { kind: 'refuse', id: 0x1234, code: responseCodes.notImplemented });
  assert.equal(encodeRefusal(7, 1).length, 12);
});

test('encodeAnswer() keeps the odd case of the question', () => {
  const parsed = parseQuery(queryFor('wWw.ExAmPlE.cOm', 1));
  assert.ok(parsed.kind === 'query');
  assert.equal(hostName(parsed.query.labels), 'www.example.com');
  const answer = encodeAnswer(parsed.query, { code: 0, records: [] }, 512);
  assert.ok(Buffer.from(answer).includes('ExAmPlE'));
});

test('encodeAnswer() cuts what does not fit and says so', () => {
  const records = Array.from({ length: 100 }, () => ({ type: 16, ttl: 1, data: new Uint8Array(50) }));
  for (const [edns, most] of [
    [undefined, 512],
    [4096, 1232],
    [100, 512],
  ] as const) {
    const parsed = parseQuery(queryFor('example.com', 16, edns));
    assert.ok(parsed.kind === 'query');
    assert.equal(udpBytesMax(parsed.query), most);
    const answer = encodeAnswer(parsed.query, { code: 0, records }, most);
    assert.ok(answer.length <= most && answer.length > most - 80);
    assert.equal((answer[2] ?? 0) & 2, 2, 'TC is set');
    const over = encodeAnswer(parsed.query, { code: 0, records }, 65_535);
    assert.equal((over[2] ?? 0) & 2, 0);
    assert.equal(new DataView(over.buffer, over.byteOffset).getUint16(6), 100);
  }
});

test('c-ares understands the answers', async () => {
  await using server = new AsyncDisposableStack();
  const socket = dgram.createSocket('udp4');
  server.defer(() => void socket.close());
  socket.on('message', (message, peer) => {
    const parsed = parseQuery(message);
    assert.ok(parsed.kind === 'query');
    const data = Uint8Array.of(198, 18, 1, 0);
    const answer = encodeAnswer(
      parsed.query,
      { code: 0, records: [{ type: recordTypes.A, ttl: 5, data }] },
      udpBytesMax(parsed.query),
    );
    socket.send(answer, peer.port, peer.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const resolver = new Resolver();
  resolver.setServers([`127.0.0.1:${socket.address().port}`]);
  assert.deepEqual(await resolver.resolve4('Some_Host.example.com', { ttl: true }), [
    { address: '198.18.1.0', ttl: 5 },
  ]);
});

test('hostName() knows one form of each name', () => {
  assert.equal(hostName(['XN--Bcher-KVA', 'Example']), 'xn--bcher-kva.example');
  assert.equal(hostName(['_sip', '_tcp', 'example', 'com']), '_sip._tcp.example.com');
  for (const labels of [
    [],
    ['127', '1'],
    ['0x7f000001'],
    ['a b', 'com'],
    ['a.b', 'com'],
    ['b\u00fccher', 'de'],
    ['-a', 'com'],
    ['*', 'example', 'com'],
    ['a\0', 'com'],
    Array.from({ length: 64 }, () => 'abc'),
  ]) {
    assert.equal(hostName(labels), undefined, labels.join('|'));
  }
});

test('reverseAddress() reads both families', () => {
  assert.deepEqual(reverseAddress('1.2.18.198.in-addr.arpa'), Uint8Array.of(198, 18, 2, 1));
  assert.equal(reverseAddress('256.2.18.198.in-addr.arpa'), undefined);
  assert.equal(reverseAddress('18.198.in-addr.arpa'), undefined);
  const nibbles = '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa';
  assert.equal(
    Buffer.from(reverseAddress(nibbles) ?? []).toString('hex'),
    '20010db8000000000000000000000001',
  );
});
