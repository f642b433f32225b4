/** A daemon that nobody needs ends with all that it started, and what sandboxes have on the disk is there for the next one. */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';

const box = '/cgi-bin/api/sandboxes/box';

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
  assert.deepEqual(processesOf(daemon.dataDir), []);

  // One that ends while it starts has nobody either: what it began with ends with it.
  const secrets = join(daemon.dataDir, 'secrets.json');
  await writeFile(secrets, 'no JSON', { mode: 0o600 });
  await daemon.launch();
  await daemon.ended();
  assert.match(daemon.output, /Cannot use the secrets: /);
  assert.deepEqual(processesOf(daemon.dataDir), []);
  await rm(secrets);

  await daemon.start({ SQUASH_IDLE_EXIT_S: '' });
  await daemon.call('POST', '/v1/sandboxes/box/resume');
  const { stdout } = await daemon.call('POST', `${box}/exec`, { cmd: 'cat /root/file' });
  assert.equal(stdout, 'kept\n');
});
