/** Which connections count as one peer's. What too many of them get is tested against the daemon (`tests/e2e/crowd.test.ts`). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { peerOf } from './newcomers.ts';

test('peerOf() takes for one peer what one machine can have many addresses of', () => {
  const rows: readonly (readonly [string | undefined, string])[] = [
    [undefined, 'unix'],
    ['127.0.0.1', 'loopback'],
    ['127.9.8.7', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::1', '0:0:0:0::/64'],
    ['2001:db8:1:2::7', '2001:db8:1:2::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::1:2:3:4:5', '2001:db8:0:1::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ];
  for (const [address, peer] of rows) assert.equal(peerOf(address), peer, address);
});
