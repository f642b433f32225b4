/** The host's interfaces are known, loopback is not among them. */
import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { isOwnAddress } from './own-addresses.ts';

test('addresses of the host’s interfaces are its own, those of loopback and of others are not', () => {
  for (const { address, internal, family } of Object.values(networkInterfaces()).flatMap(
    (each) => each ?? [],
  )) {
    if (family === 'IPv4') assert.equal(isOwnAddress(address), !internal, address);
  }
  for (const address of ['127.0.0.1', '::1', '192.0.2.1', '2001:db8::1']) {
    assert.equal(isOwnAddress(address), false);
  }
});
