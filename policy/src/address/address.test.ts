/** Every spelling of an address is the same address, and every special range is known in every spelling. */
import assert from 'node:assert/strict';
import { BlockList, isIPv6 } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { effectiveAddress, formatAddress, parseAddress } from './address.ts';
import { cidrContains, formatCidr, parseCidr } from './cidr.ts';
import { classifyAddress } from './ranges.ts';

const bytes = (text: string): Uint8Array => {
  const address = parseAddress(text);
  assert.ok(address !== undefined, `"${text}" is an address`);
  return address;
};
const ipv4 = fc.uint8Array({ minLength: 4, maxLength: 4 });
const ipv6 = fc.uint8Array({ minLength: 16, maxLength: 16 });
/** Long runs of zeros are what the short notation is about. */
const sparseIpv6 = fc
  .array(fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 0xffff })), {
    minLength: 8,
    maxLength: 8,
  })
  .map((words) => Uint8Array.from(words.flatMap((word) => [word >>> 8, word & 0xff])));

test('formatAddress() writes what parseAddress() reads back, in the one canonical way', () => {
  fc.assert(
    fc.property(fc.oneof(ipv4, ipv6, sparseIpv6), (address) => {
      const text = formatAddress(address);
      const again = bytes(text);
      assert.deepEqual(formatAddress(again), text);
      assert.deepEqual(effectiveAddress(again), effectiveAddress(address));
      // The WHATWG parser is an implementation of RFC 5952 that is not ours.
      if (isIPv6(text)) assert.equal(new URL(`http://[${text}]`).hostname, `[${text}]`);
    }),
  );
});

test('parseAddress() takes full literals only', () => {
  for (const text of [
    '127.1',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '2130706433',
    '127.0.0.1.',
    ' 127.0.0.1',
    'fe80::1%lo',
    '[::1]',
    '1::2::3',
    '',
  ]) {
    assert.equal(parseAddress(text), undefined, text);
  }
});

test('mapped and NAT64 forms are judged as the IPv4 address they reach', () => {
  fc.assert(
    fc.property(ipv4, (address) => {
      const plain = classifyAddress(address);
      for (const prefix of ['::ffff:', '64:ff9b::']) {
        assert.deepEqual(classifyAddress(bytes(prefix + address.join('.'))), plain);
      }
    }),
  );
});

test('classifyAddress() knows each special range', () => {
  const expected: Record<string, string> = {
    '127.0.0.1': 'loopback',
    '127.255.255.255': 'loopback',
    '0.0.0.0': 'loopback',
    '0.0.0.1': 'reserved',
    '10.1.2.3': 'private',
    '172.15.255.255': 'public',
    '172.16.0.0': 'private',
    '172.31.255.255': 'private',
    '172.32.0.0': 'public',
    '192.168.1.1': 'private',
    '100.64.0.1': 'shared',
    '100.127.255.255': 'shared',
    '100.128.0.0': 'public',
    '100.100.100.200': 'metadata',
    '169.254.169.254': 'metadata',
    '169.254.1.1': 'link_local',
    '168.63.129.16': 'metadata',
    '192.0.0.8': 'reserved',
    '192.0.2.1': 'documentation',
    '198.18.0.1': 'benchmarking',
    '198.19.255.255': 'benchmarking',
    '198.20.0.0': 'public',
    '203.0.113.80': 'documentation',
    '224.0.0.1': 'multicast',
    '239.255.255.255': 'multicast',
    '240.0.0.1': 'reserved',
    '255.255.255.255': 'broadcast',
    '8.8.8.8': 'public',
    '::': 'loopback',
    '::1': 'loopback',
    '::7f00:1': 'reserved',
    '::ffff:127.0.0.1': 'loopback',
    '::ffff:169.254.169.254': 'metadata',
    '64:ff9b::a00:1': 'private',
    '64:ff9b::808:808': 'public',
    '64:ff9b:1::a00:1': 'tunnel',
    '100::1': 'reserved',
    '2001::1': 'tunnel',
    '2001:0:a00:1::': 'tunnel',
    '2001:20::1': 'reserved',
    '2001:db8::1': 'documentation',
    '2002:a00:1::1': 'tunnel',
    '2606:4700::1111': 'public',
    '3fff::1': 'documentation',
    '4000::1': 'reserved',
    '5f00::1': 'reserved',
    'fc00::1': 'private',
    'fd00:ec2::254': 'metadata',
    'fe80::1': 'link_local',
    'fec0::1': 'private',
    'ff02::1': 'multicast',
  };
  for (const [text, kind] of Object.entries(expected)) {
    assert.equal(classifyAddress(bytes(text)).kind, kind, text);
  }
});

test('cidrContains() agrees with the kernel library about every range', () => {
  const range = fc.oneof(
    fc.tuple(ipv4, fc.integer({ min: 0, max: 32 })),
    fc.tuple(sparseIpv6, fc.integer({ min: 0, max: 128 })),
  );
  fc.assert(
    fc.property(range, fc.integer({ min: 0, max: 127 }), ([address, prefix], flipped) => {
      const base = address.map((byte, at) => byte & ~(0xff >>> Math.min(8, Math.max(0, prefix - at * 8))));
      const text = `${formatAddress(base)}/${prefix}`;
      const cidr = parseCidr(text);
      // A range that is wider than the mapping it begins in has no single family.
      if (cidr === undefined || cidr.base.length !== base.length) return;
      assert.equal(formatCidr(cidr), text);
      const family = base.length === 4 ? 'ipv4' : 'ipv6';
      const list = new BlockList();
      list.addSubnet(formatAddress(base), prefix, family);
      const other = Uint8Array.from(address);
      const bit = flipped % (other.length * 8);
      other[bit >>> 3] = (other[bit >>> 3] ?? 0) ^ (0x80 >>> (bit & 7));
      for (const one of [address, other]) {
        const written = formatAddress(one);
        if ((one.length === 16) !== isIPv6(written)) continue;
        assert.equal(cidrContains(cidr, one), list.check(written, family), `${text} ${written}`);
      }
    }),
  );
});

test('parseCidr() refuses what is no range', () => {
  for (const text of [
    '10.0.0.1/8',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/08',
    '10/8',
    'x/8',
    '::/129',
    '::ffff:0:0/90',
  ]) {
    assert.equal(parseCidr(text), undefined, text);
  }
  assert.deepEqual(parseCidr('::ffff:10.0.0.0/104'), parseCidr('10.0.0.0/8'));
  assert.deepEqual(parseCidr('10.0.0.1'), parseCidr('10.0.0.1/32'));
});
