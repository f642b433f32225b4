/**
 * Who has taken a microVM's monitor over, at the socket where the daemon asks it for other limits and takes its device away: he lies or
 * is silent, and gets no fault of the daemon, no time of others, and no more than is counted.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Capability } from '@squash/contract/capability';
import { limits } from '@squash/contract/limits';
import { sandboxCgroupsOf } from '../support/leaks.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';
import { inTime, takenOptions } from './taken-scene.ts';
import { attackedMemoryMb, UnderAttack } from './under-attack.ts';

const mib = 1_048_576;
const path = '/v1/sandboxes/attacked';
const folder = mkdtempSync(join(tmpdir(), ownedPrefix('control')));
let scene: UnderAttack;
/** By control groups; a host without them refuses each change of limits. */
let isHeld: boolean;

before(async () => {
  scene = await UnderAttack.start(await takenOptions(folder));
  const { host } = (await scene.daemon.request('GET', '/v1/info')).json;
  const groups: readonly Capability[] = host.filter(({ name }: Capability) =>
    /^cgroup_(memory|cpu)$/.test(name),
  );
  isHeld = groups.every(({ state }) => state === 'ok');
});
after(async () => {
  await scene[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

async function put(id: string, file: string, text: string): Promise<void> {
  const answer = await fetch(`${scene.daemon.url}/v1/sandboxes/${id}/files?path=${file}&mode=0755`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${scene.secrets[0] ?? ''}` },
    body: `#!/bin/sh\n${text}\n`,
  });
  assert.ok(answer.ok, await answer.text());
}

const saysNothing = 'exec sleep 1000';

/** As QEMU would, of a machine of so many MiB; each lie is a case of its own before what is true. */
function says(memoryMb: number, ...lies: readonly string[]): string {
  return `echo '{"QMP":{}}'
while read -r line; do
  case $line in
    ${lies.join('\n    ')}
    *query-kvm*) echo '{"return":{"enabled":false}}' ;;
    *query-cpus-fast*) echo '{"return":[{}]}' ;;
    *query-memory-size*) echo '{"return":{"base-memory":${memoryMb * mib}}}' ;;
    *query-balloon*) echo '{"return":{"actual":${attackedMemoryMb * mib}}}' ;;
    *query-status*) echo '{"return":{"status":"running"}}' ;;
    *) echo '{"return":{}}' ;;
  esac
done`;
}

const forkOf = (sandbox: string): readonly ['POST', string, object] => [
  'POST',
  '/v1/sandboxes',
  { from: { sandbox }, memory: true },
];

test('what is none of QEMU’s answers is a fault of the guest', async () => {
  const { daemon } = scene;
  await put('attacked', '/lies/control', `echo '{"QMP":{}}'; while read -r _; do echo '{"return":7}'; done`);
  const forked = await inTime('the fork', daemon.request(...forkOf('attacked')));
  assert.equal(forked.json.code, 'guest_failed', forked.text);
  const changed = await inTime('the change', daemon.request('PATCH', path, { cpu: 0.5 }));
  assert.equal(changed.json.code, isHeld ? 'guest_failed' : 'limits_unenforceable', changed.text);
});

test('so is silence, and who removes it waits for no answer', async () => {
  const { daemon } = scene;
  await scene.create('silent');
  await put('silent', '/lies/control', saysNothing);
  const silent = await daemon.request(...forkOf('silent'));
  assert.equal(silent.json.code, 'guest_failed', silent.text);
  const waiting = daemon.request(...forkOf('silent'));
  await delay(1_000);
  await inTime('its removal', daemon.request('DELETE', '/v1/sandboxes/silent'));
  assert.equal((await waiting).json.code, 'sandbox_not_found');
});

test('one that takes its time over more memory has it counted: also where the daemon dies meanwhile', async () => {
  if (!isHeld) return;
  const { daemon } = scene;
  const wanted = 2 * attackedMemoryMb;
  await put('attacked', '/lies/control', says(wanted));
  const most = (): number => Math.max(...sandboxCgroupsOf(daemon.dataDir).map(groupMemory));
  const before = most();
  daemon.request('PATCH', path, { memory_mb: wanted }).catch(() => undefined); // Nobody is there to answer.
  await waitFor('its group to have more', () => most() > before);
  await delay(1_000);
  await daemon.kill();
  await daemon.start();
  const { json, text } = await daemon.request('GET', path);
  assert.equal(json.memory_mb, wanted, text);
});

test('while some start and are not done others are made and go on, also behind who collects trees', async () => {
  const { daemon } = scene;
  const beside = { id: 'beside', layers: ['000-base-test'], backend: 'chroot' };
  await daemon.call('POST', '/cgi-bin/api/sandboxes', beside);
  await daemon.call('POST', '/v1/sandboxes/beside/pause', { keep: 'files' });
  const slow = Array.from({ length: limits.startsAtOnceMax }, (_, at) => `slow-${at}`);
  for (const id of slow) {
    await scene.create(id);
    await put(id, '/lies/boot', saysNothing);
    await daemon.call('POST', `/v1/sandboxes/${id}/pause`, { keep: 'files' });
  }
  const resumed = slow.map((id) => daemon.request('POST', `/v1/sandboxes/${id}/resume`));
  await delay(2_000);
  const collected = inTime('collecting', daemon.request('POST', '/v1/gc'));
  await delay(500);
  const another = { ...beside, id: 'another' };
  const made = await inTime('another one', daemon.request('POST', '/cgi-bin/api/sandboxes', another));
  assert.equal(made.status, 201, made.text);
  const goesOn = await inTime('going on', daemon.request('POST', '/v1/sandboxes/beside/resume'));
  assert.equal(goesOn.status, 200, goesOn.text);
  assert.equal((await collected).status, 200);
  for (const id of slow) await inTime('its removal', daemon.request('DELETE', `/v1/sandboxes/${id}`));
  await Promise.all(resumed);
});

/** 0 where this host has no such file. */
function groupMemory(group: string): number {
  for (const name of ['memory.max', 'memory.limit_in_bytes']) {
    try {
      return Number(readFileSync(join(group, name), 'utf8'));
    } catch {
      // Another controller's, or of the other version.
    }
  }
  return 0;
}

test('a daemon’s start waits no longer for the device of one that keeps it', async () => {
  const { daemon } = scene;
  await scene.create('keeps');
  await put('keeps', '/lies/control', says(attackedMemoryMb, `*qom-list*) ${saysNothing} ;;`));
  daemon.request(...forkOf('keeps')).catch(() => undefined); // As above.
  await delay(2_000);
  await daemon.kill();
  const began = performance.now();
  await daemon.start();
  const took = performance.now() - began;
  // Its PID 1 is asked behind that, too.
  assert.ok(took < 2 * limits.takeOverMs + 10_000, `the start took ${took} ms`);
});
