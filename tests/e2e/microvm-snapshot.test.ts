/**
 * A snapshot of a microVM with its memory, through the API: sandboxes that are made of it go on with the processes, at any later time, as
 * often as wanted; what does not fit any more, or was changed, is given to no machine.
 */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  closeSync,
  openSync,
  readdirSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { squashOk } from '../support/cli.ts';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { MemoryCounter } from '../support/memory-counter.ts';
import { waitFor } from '../support/wait.ts';

const sandboxes = '/v1/sandboxes';
let daemon: TestDaemon;
let source: string;

before(async () => {
  daemon = await TestDaemon.start({
    modules: { ...(await debianModules()), '900-vmm': await vmModule() },
  });
  source = await create({ from: { layers: ['000-base-debian'] }, backend: 'vm', memory_mb: 128 });
});
after(async () => await daemon[Symbol.asyncDispose]());

async function send(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await daemon.request(method, path, body);
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

async function create(body: unknown): Promise<string> {
  return (await send('POST', sandboxes, body)).json.id;
}

async function refused(path: string, body: unknown): Promise<readonly [number, string]> {
  const { status, json } = await daemon.request('POST', path, body);
  return [status, json.code];
}

async function output(id: string, cmd: string): Promise<string> {
  const { json } = await send('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd });
  assert.equal(json.exit_code, 0, json.stderr);
  return json.stdout.trim();
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(join(daemon.dataDir, folder)).sort();
  } catch {
    return [];
  }
}

function writeAt(path: string, at: number, bytes: Buffer): void {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, at);
  closeSync(file);
}

const snapshotFiles = (): readonly string[] => namesIn(`sandboxes/${source}/snapshots`);

function temporary(): readonly string[] {
  return [...namesIn('tmp').filter((name) => /^(memory|disk)-/.test(name)), ...namesIn('vm/forks')];
}

const counter = new MemoryCounter(output);

test('a snapshot with memory is taken of a microVM that runs, which goes on', async () => {
  await output(source, 'echo before >/root/file');
  await counter.start(source);
  const { word, count } = await counter.in(source);
  assert.equal((await squashOk(daemon, ['snapshot', '--with-memory', source, 'live'])).trim(), 'live');
  await counter.goesOn(source, count);
  assert.equal((await counter.in(source)).word, word);
  await output(source, 'echo after >/root/file');
  assert.deepEqual(temporary(), []);
  assert.deepEqual(snapshotFiles(), ['live.disk', 'live.memory', 'live.squashfs']);
  const { json } = await send('GET', `${sandboxes}/${source}/snapshots/live`);
  const [memory, disk] = ['live.memory', 'live.disk'].map((name) =>
    statSync(join(daemon.dataDir, 'sandboxes', source, 'snapshots', name)),
  );
  assert.equal(json.memory_bytes, (memory?.size ?? 0) + (disk?.size ?? 0));
  assert.equal((memory?.mode ?? 0) & 0o777, 0o600);
});

test('what has no memory to save, or none that was saved, is refused', async () => {
  const plain = await create({ from: { layers: ['000-base-debian'] } });
  assert.deepEqual(await refused(`${sandboxes}/${plain}/snapshots`, { memory: true }), [
    400,
    'unsupported_feature',
  ]);
  await send('POST', `${sandboxes}/${plain}/snapshots`, { label: 'files' });
  const restore = { snapshot: 'files', memory: true };
  assert.deepEqual(await refused(`${sandboxes}/${plain}/restore`, restore), [400, 'unsupported_feature']);
  await send('DELETE', `${sandboxes}/${plain}`);
  await send('POST', `${sandboxes}/${source}/snapshots`, { label: 'files' });
  const of = (snapshot: string): object => ({ from: { sandbox: source, snapshot }, memory: true });
  assert.deepEqual(await refused(sandboxes, of('files')), [400, 'invalid_request']);
  assert.deepEqual(await refused(sandboxes, of('none')), [404, 'snapshot_not_found']);
  assert.deepEqual(await refused(sandboxes, { ...of('live'), memory_mb: 256 }), [400, 'invalid_request']);
  assert.deepEqual(await refused(sandboxes, { ...of('live'), backend: 'chroot' }), [400, 'invalid_request']);
});

test('a daemon that dies while another one is taken leaves nothing of that', async () => {
  const then = await counter.in(source);
  daemon
    .request('POST', `${sandboxes}/${source}/snapshots`, { label: 'half', memory: true })
    .catch(() => undefined); // Nobody is there to answer.
  await waitFor('it to be written', () => temporary().some((name) => name.startsWith('disk-')), 60_000);
  await daemon.kill();
  await daemon.start();
  await counter.goesOn(source, then.count);
  assert.equal((await counter.in(source)).word, then.word);
  assert.deepEqual(temporary(), []);
  assert.deepEqual(snapshotFiles(), ['files.squashfs', 'live.disk', 'live.memory', 'live.squashfs']);
});

test('sandboxes go on from it behind that restart, when it has another label, each on its own', async () => {
  const then = await counter.in(source);
  await send('PATCH', `${sandboxes}/${source}/snapshots/live`, { label: 'kept' });
  assert.deepEqual(snapshotFiles(), ['files.squashfs', 'kept.disk', 'kept.memory', 'kept.squashfs']);
  const from = { sandbox: source, snapshot: 'kept' };
  const [one, other] = await Promise.all([
    squashOk(daemon, ['fork', '--with-memory', source, 'kept']).then((text) => text.trim()),
    squashOk(daemon, ['create', '--from', `${source}:kept`, '--with-memory']).then((text) => text.trim()),
  ]);
  for (const id of [one, other]) {
    const now = await counter.in(id);
    assert.equal(now.word, then.word);
    await counter.goesOn(id, now.count);
    assert.equal(await output(id, 'cat /root/file; hostname'), `before\n${id}`);
  }
  assert.equal((await counter.in(source)).word, then.word);
  assert.equal(await output(source, 'cat /root/file'), 'after');
  const random = await Promise.all([one, other].map((id) => output(id, 'cat /proc/sys/kernel/random/uuid')));
  assert.notEqual(random[0], random[1]);
  assert.deepEqual(temporary(), []);
  // Its files are a snapshot like any other, which starts on the other backend as well.
  const files = await create({ from, backend: 'chroot' });
  assert.equal(await output(files, 'cat /root/file'), 'before');
});

test('the one that it was taken of is put back to it with its processes, or not touched', async () => {
  const then = await counter.in(source);
  await squashOk(daemon, ['restore', '--with-memory', source, 'kept']);
  const now = await counter.in(source);
  assert.equal(now.word, then.word);
  assert.ok(now.count < then.count, `${now.count} after ${then.count}`);
  await counter.goesOn(source, now.count);
  assert.equal(await output(source, 'cat /root/file; hostname'), `before\n${source}`);
  const boot = await output(source, 'cat /proc/sys/kernel/random/boot_id');
  const restore = `${sandboxes}/${source}/restore`;
  assert.deepEqual(await refused(restore, { snapshot: 'files', memory: true }), [400, 'invalid_request']);
  assert.equal(await output(source, 'cat /proc/sys/kernel/random/boot_id'), boot);
  assert.deepEqual(temporary(), []);
});

test('a memory that was changed, or was saved on other disks than there are, is gone on from by nobody', async () => {
  const from = { from: { sandbox: source, snapshot: 'kept' }, memory: true };
  const path = join(daemon.dataDir, 'sandboxes', source, 'snapshots/kept.memory');
  const { size } = statSync(path);
  appendFileSync(path, 'x');
  assert.deepEqual(await refused(sandboxes, from), [500, 'layer_corrupt']);
  truncateSync(path, size);
  // The time at which a layer's disk was made, in all of them.
  const disks = namesIn('vm/layers').map((name) => join(daemon.dataDir, 'vm/layers', name));
  for (const disk of disks) writeAt(disk, 8, Buffer.from([1, 2, 3, 4]));
  assert.deepEqual(await refused(sandboxes, from), [409, 'vm_unsupported']);
  const then = await counter.in(source);
  const restore = { snapshot: 'kept', memory: true };
  assert.deepEqual(await refused(`${sandboxes}/${source}/restore`, restore), [409, 'vm_unsupported']);
  await counter.goesOn(source, then.count);
  assert.deepEqual(temporary(), []);
});

test('its memory goes with it, and a file that lies in such a place is none', async () => {
  await send('DELETE', `${sandboxes}/${source}/snapshots/kept`);
  assert.deepEqual(snapshotFiles(), ['files.squashfs']);
  writeFileSync(join(daemon.dataDir, 'sandboxes', source, 'snapshots/files.memory'), 'x');
  const from = { sandbox: source, snapshot: 'files' };
  assert.deepEqual(await refused(sandboxes, { from, memory: true }), [400, 'invalid_request']);
  await send('DELETE', `${sandboxes}/${source}/snapshots/files`);
  assert.deepEqual(snapshotFiles(), []);
});

test('nothing is left of them when they are gone', async () => {
  for (const { id } of (await send('GET', sandboxes)).json.items) await send('DELETE', `${sandboxes}/${id}`);
  assert.deepEqual(
    processesOf(daemon.dataDir).filter(({ command }) => command.includes('qemu-system')),
    [],
  );
});
