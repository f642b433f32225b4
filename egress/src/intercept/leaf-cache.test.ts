/** The leaves that the interceptor shows: a real handshake, and when they are made again. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect, createServer } from 'node:tls';
import { type Clock, systemClock, type WallMs } from '@squash/base/clock';
import { loadInstallationCa } from '@squash/installation/installation-ca';
import { LeafCache } from './leaf-cache.ts';

const dayMs = 86_400_000;

class Directory implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'squash-leaf-'));
  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}

function later(days: number): Clock {
  return { ...systemClock, wallMs: () => (systemClock.wallMs() + days * dayMs) as WallMs };
}

test('a real handshake verifies with the authority and fails without it', async () => {
  using directory = new Directory();
  const ca = await loadInstallationCa(directory.path, systemClock);
  const leaves = new LeafCache(ca, systemClock);
  const server = createServer({
    SNICallback: (name, done) => done(null, leaves.contextFor(name)),
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    const good = connect({
      port,
      servername: 'api.test',
      ca: ca.certificate,
    });
    await once(good, 'secureConnect');
    assert.equal(good.authorized, true);
    good.destroy();
    const bad = connect({ port, servername: 'api.test' });
    const [error] = await once(bad, 'error').catch((reason: unknown) => [reason]);
    assert.match(String((error as NodeJS.ErrnoException).code), /UNABLE_TO_VERIFY_LEAF|SELF_SIGNED/);
  } finally {
    server.close();
  }
});

test('leaves are reused, made again before they end or when the clock was set back, and bounded', async () => {
  using directory = new Directory();
  const ca = await loadInstallationCa(directory.path, systemClock);
  let days = 0;
  const clock: Clock = { ...systemClock, wallMs: () => later(days).wallMs() };
  const leaves = new LeafCache(ca, clock);
  const first = leaves.contextFor('a.test');
  assert.equal(leaves.contextFor('a.test'), first);
  days = 2.5;
  const second = leaves.contextFor('a.test');
  assert.notEqual(second, first);
  days = 0;
  assert.notEqual(leaves.contextFor('a.test'), second);
  for (let index = 0; index < 600; index += 1) leaves.contextFor(`${index}.test`);
  assert.equal(leaves.size, 512);
});
