/** The host's interfaces are known, loopback is not among them; and where the daemon listens, in every spelling. */
import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { type Address, parseAddress } from '@squash/policy/address/address';
import { dialledFrom } from './own-addresses.ts';

function bytes(text: string): Address {
  const address = parseAddress(text);
  assert.ok(address !== undefined, text);
  return address;
}

const interfaces = Object.values(networkInterfaces())
  .flatMap((each) => each ?? [])
  .filter(({ family }) => family === 'IPv4');

test('addresses of the host’s interfaces are its own, those of loopback and of others are not', () => {
  const host = dialledFrom([]);
  for (const { address, internal } of interfaces)
    assert.equal(host.isOwn(bytes(address)), !internal, address);
  for (const address of ['127.0.0.1', '::1', '192.0.2.1', '2001:db8::1']) {
    assert.equal(host.isOwn(bytes(address)), false);
  }
});

test('the daemon is where it listens, on all of the host’s addresses where that is every one', () => {
  const one = dialledFrom([{ address: '127.0.0.1', port: 8080 }]);
  const every = dialledFrom([{ address: '::', port: 8080 }]);
  for (const [address, byOne, byEvery] of [
    ['127.0.0.1', true, true],
    ['127.9.9.9', false, true],
    ['0.0.0.0', true, true],
    ['::', true, true],
    ['::1', false, true],
    ['192.0.2.1', false, false],
    ...interfaces.filter(({ internal }) => !internal).map(({ address }) => [address, false, true] as const),
  ] as const) {
    assert.equal(one.isDaemon(bytes(address), 8080), byOne, address);
    assert.equal(every.isDaemon(bytes(address), 8080), byEvery, address);
    assert.equal(every.isDaemon(bytes(address), 8081), false, address);
  }
});
