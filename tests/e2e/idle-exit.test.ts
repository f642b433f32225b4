/**
 * A daemon that nobody needs ends with all that it started, and what sandboxes have on the disk is there for the next one. Its egress
 * process comes behind its first command, or when a sandbox connects.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const box = '/cgi-bin/api/sandboxes/box';
const isEgress = ({ command }: { readonly command: string }): boolean =>
  command.includes('egress/src/main.ts');

/** As root the helper hears of the launcher's end, and ends behind the keeper. */
async function leavesNothing({ dataDir }: TestDaemon): Promise<void> {
  await waitFor('what it started to end with it', () => processesOf(dataDir).length === 0, 5_000);
}

test('a daemon ends when no sandbox has run and nobody was connected for SQUASH_IDLE_EXIT_S, and not before', {
  timeout: 120_000,
}, async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_IDLE_EXIT_S: '2' } });
  await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'box', layers: '000-base-test' });
  await daemon.call('POST', `${box}/exec`, { cmd: 'echo kept >/root/file' });
  // Longer than it would wait: a sandbox that runs and one that stands still are reasons to stay.
  await sleep(4_000);
  assert.ok(daemon.pid !== undefined);
  await daemon.call('POST', '/v1/sandboxes/box/pause', { keep: 'memory' });
  await sleep(4_000);
  assert.ok(daemon.pid !== undefined);
  await daemon.call('POST', '/v1/sandboxes/box/pause', { keep: 'files' });
  // Who follows a stream needs it; a connection that a client only keeps is nobody.
  const following = new AbortController();
  const events = await fetch(`${daemon.url}/v1/events?follow=true`, {
    signal: following.signal,
    headers: { accept: 'text/event-stream' },
  });
  await sleep(4_000);
  assert.ok(daemon.pid !== undefined && events.body?.locked === false);
  following.abort();
  await daemon.ended();
  assert.match(daemon.output, /"event":"daemon.stopping"[^\n]*"signal":"idle"/);
  await leavesNothing(daemon);

  // One that ends while it starts has nobody either: what it began with ends with it, an egress process or none.
  const secrets = join(daemon.dataDir, 'secrets.json');
  await writeFile(secrets, 'no JSON', { mode: 0o600 });
  const egressLog = join(daemon.dataDir, 'log/egress.log');
  await rm(egressLog);
  for (const idle of ['2', '']) {
    await daemon.launch({ SQUASH_IDLE_EXIT_S: idle });
    await daemon.ended();
    await leavesNothing(daemon);
    assert.equal(existsSync(egressLog), idle === '', 'one that ends by itself has begun none yet');
  }
  assert.equal(daemon.output.match(/Cannot use the secrets: /g)?.length, 2);
  await rm(secrets);

  // Nobody asks it anything: it ends about when it would start its egress process.
  await daemon.launch({ SQUASH_IDLE_EXIT_S: '1' });
  await daemon.ended();
  await leavesNothing(daemon);

  // Once a sandbox has come and gone, what that takes is kept compiled for the next start.
  const kept = join(daemon.dataDir, 'run/compile/host-src-main.ts.kept');
  assert.ok(!existsSync(kept));
  for (const id of ['box', 'next']) {
    await daemon.start({ SQUASH_IDLE_EXIT_S: '2' });
    if (id === 'box') await daemon.call('POST', '/v1/sandboxes/box/resume');
    else await daemon.call('POST', '/cgi-bin/api/sandboxes', { id, layers: '000-base-test' });
    const { stdout } = await daemon.call('POST', `/cgi-bin/api/sandboxes/${id}/exec`, {
      cmd: 'cat /root/file; true',
    });
    assert.equal(stdout, id === 'box' ? 'kept\n' : '');
    await daemon.call('DELETE', `/cgi-bin/api/sandboxes/${id}`);
    await daemon.ended();
    assert.ok(existsSync(kept));
  }
});

test('the egress process of such a daemon is begun for its first command, which finds its network, or a moment later without one', {
  timeout: 120_000,
}, async () => {
  await using stack = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), 'squash-hosts-'));
  stack.defer(() => rm(directory, { recursive: true }));
  // The daemon has an id of its own.
  await chmod(directory, 0o755);
  const hosts = join(directory, 'hosts');
  await writeFile(hosts, '127.0.0.1 good.example other.example\n');
  const heard: string[] = [];
  const server = createServer((socket) => {
    socket.setEncoding('utf8').on('error', () => undefined);
    socket.once('data', (word: string) => {
      heard.push(word.trim());
      socket.end('hello from outside\n');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const daemon = await TestDaemon.start({
    env: {
      SQUASH_IDLE_EXIT_S: '5',
      SQUASH_EGRESS_HOSTS: hosts,
      SQUASH_EGRESS_RESOLVERS: '127.0.0.1:9',
      SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.0/8',
    },
  });
  stack.use(daemon);
  // That it is not there yet is no problem of anybody's.
  assert.deepEqual((await daemon.call('GET', '/cgi-bin/health')).problems ?? [], []);
  await daemon.call('POST', '/cgi-bin/api/sandboxes', {
    id: 'box',
    layers: '000-base-test',
    allow_net: ['good.example'],
  });
  const ask = (host: string): string =>
    `ip=$(nslookup ${host} 198.18.0.1 2>&1 | awk '/^Name/ { found = 1 } found && /^Address/ { print $2; exit }'); echo "to ${host}" | nc -w 5 "$ip" ${port} 2>&1`;
  // Names and addresses: whichever comes first is held.
  const cmd = `${ask('other.example')}; nc -w 5 127.0.0.1 ${port} </dev/null; ${ask('good.example')}; true`;
  const { stdout } = await daemon.call('POST', `${box}/exec`, { cmd, timeout: 30 });
  assert.match(stdout, /^hello from outside$/m);
  assert.deepEqual(heard, ['to good.example']);
  assert.equal(processesOf(daemon.dataDir).filter(isEgress).length, 1);
  assert.deepEqual((await daemon.call('GET', '/cgi-bin/health')).problems ?? [], []);

  // The next one finds a sandbox at rest, and nobody runs a command.
  await daemon.call('POST', '/v1/sandboxes/box/pause', { keep: 'files' });
  await daemon.ended();
  await leavesNothing(daemon);
  await daemon.start();
  await waitFor('an egress process', () => processesOf(daemon.dataDir).some(isEgress));
});
