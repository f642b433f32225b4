/** What Firecracker is asked, judged by what stands in for it; and what a VMM that somebody has taken over may answer. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { duplexPair, pipeline } from 'node:stream';
import { after, before, test } from 'node:test';
import { encodeFields } from '@squash/contract/guest/codec';
import { standIn } from '../../../../tests/support/firecracker-program.ts';
import { ownedPrefix } from '../../../../tests/support/owned-directory.ts';
import { vmPlan } from '../../../../tests/support/vm-plan.ts';
import { waitFor } from '../../../../tests/support/wait.ts';
import { vmCapabilities } from './capabilities.ts';
import { FirecrackerApi } from './firecracker-api.ts';
import { goOnMachine, startMachine } from './firecracker-copies.ts';
import { FirecrackerProgram } from './firecracker-program.ts';
import { bootRequests } from './firecracker.ts';
import type { VmPlan } from './vmm.ts';
import type { ToVmm, VmmAsk } from './vmm-channel.ts';

let directory: string;
let judge: ChildProcess;
let api: FirecrackerApi;

/** As squash-vmm lets through to the control socket. */
function through(path: string): ToVmm {
  return async () => {
    const [ours, its] = duplexPair();
    its.once('data', () => {
      const socket = connect(path, () => void its.write(encodeFields('ok', [])));
      pipeline(its, socket, its, () => undefined);
    });
    return ours;
  };
}

before(async () => {
  directory = await mkdtemp(join(tmpdir(), ownedPrefix('firecracker-api')));
  const socket = join(directory, 'api.sock');
  for (const name of ['vmlinux', 'initrd', 'l0', 'disk']) await writeFile(join(directory, name), name);
  judge = spawn(standIn(directory, '1.16.1'), ['--id', 'vm', '--api-sock', socket], { stdio: 'inherit' });
  await waitFor('the socket', () => existsSync(socket), 10_000);
  api = new FirecrackerApi(through(socket), AbortSignal.timeout(60_000));
});
after(async () => {
  const ended = once(judge, 'exit');
  judge.kill();
  await ended;
  await rm(directory, { recursive: true });
});

/** Whose files the stand-in opens. */
function plan(changes: Partial<VmPlan> = {}): VmPlan {
  return vmPlan({
    kernel: join(directory, 'vmlinux'),
    initrd: join(directory, 'initrd'),
    lowers: [join(directory, 'l0')],
    upper: { path: join(directory, 'disk'), bytes: 2 ** 20, inodes: 64 },
    ...changes,
  });
}

/** Those that need neither a tap nor a VM module. */
const plain = (requests: readonly VmmAsk[]): readonly VmmAsk[] =>
  requests.filter(({ path }) => !/^\/(network-interfaces|vsock|actions)/.test(path));

test('what it is asked is taken, and the order is that of its rules', async () => {
  const requests = bootRequests(plan());
  const paths = requests.map(({ path }) => path);
  assert.equal(paths.at(-1), '/actions');
  assert.deepEqual(
    paths.filter((path) => path.startsWith('/drives/')),
    ['/drives/l0', '/drives/upper'],
  );
  for (const asked of plain(requests)) assert.equal(await api.send(asked), undefined, asked.path);
  assert.deepEqual(requests[0]?.body, { vcpu_count: 2, mem_size_mib: 256 });
  assert.equal(bootRequests(plan({ cpuMilli: 100_000 }))[0]?.body?.['vcpu_count'], 32);
  assert.ok(bootRequests(plan({ hasNetwork: false })).every(({ path }) => !path.startsWith('/network')));
});

test('the judge lets nothing pass that the real one refuses', async () => {
  const refused = async (asked: VmmAsk, reason: RegExp): Promise<void> => {
    await assert.rejects(api.send(asked), { code: 'guest_failed', message: reason });
  };
  for (const asked of plain(bootRequests(plan()))) {
    await refused(
      { ...asked, body: { ...asked.body, invented: 1 } },
      /answers 400 to PUT .*unknown field `invented`/,
    );
    for (const [name, value] of Object.entries(asked.body ?? {})) {
      const other = typeof value === 'string' ? 7 : 'text';
      await refused({ ...asked, body: { ...asked.body, [name]: other } }, /invalid type/);
    }
  }
  const drive = (body: object, id = 'l0'): VmmAsk => ({
    method: 'PUT',
    path: `/drives/${id}`,
    body: { drive_id: 'l0', is_root_device: false, path_on_host: join(directory, 'l0'), ...body },
  });
  await refused(drive({}, 'l1'), /id from the path/);
  await refused(drive({ drive_id: 'l-0' }, 'l-0'), /alphanumeric/);
  await refused(drive({ cache_type: 'Writethrough' }), /unknown variant/);
  await refused(drive({ path_on_host: join(directory, 'none') }), /backing file/);
  const put = (path: string, body: Record<string, unknown>): VmmAsk => ({ method: 'PUT', path, body });
  await refused(put('/machine-config', { vcpu_count: 33, mem_size_mib: 1 }), /invalid value/);
  await refused(put('/machine-config', { vcpu_count: 3, mem_size_mib: 1, smt: true }), /1 or even/);
  await refused(put('/machine-config', { vcpu_count: 1 }), /missing field `mem_size_mib`/);
  await refused(put('/vsock', { guest_cid: 2, uds_path: '/x' }), /invalid value/);
  await refused(put('/actions', { action_type: 'Start' }), /unknown variant/);
  await refused(put('/other', {}), /Invalid request method/);
  await refused({ method: 'PATCH', path: '/vm', body: { state: 'Paused' } }, /not supported before starting/);
});

test('a command line that the machine does not take is refused before it is sent', () => {
  assert.throws(() => bootRequests(plan({ hostname: 'h'.repeat(2_048) })), /more than 2048 bytes/);
});

test('doctor calls a program that is no Firecracker missing', () => {
  const row = (path: string): string | undefined =>
    vmCapabilities(directory, { program: new FirecrackerProgram(directory, path) }).find(
      ({ name }) => name === 'vmm',
    )?.state;
  assert.equal(row(standIn(directory, '1.16.1')), 'ok');
  assert.equal(row('/bin/true'), 'missing');
});

test('a program that is no Firecracker is refused before a VM is made for it', async () => {
  await assert.rejects(new FirecrackerProgram(directory, '/bin/true').tree(), {
    code: 'vm_unavailable',
    message: /"\/bin\/true" is no Firecracker/,
  });
});

test('a VMM that was taken over is heard for a while, and its words are plain text', async (t) => {
  const path = join(directory, 'taken.sock');
  const lie = '{"fault_message":"\\u001b[2Jowned\\u0000 and a long tale"}';
  const answers = [
    `HTTP/1.1 400 \r\nContent-Length: ${lie.length}\r\n\r\n${lie}`,
    `HTTP/1.1 200 \r\nContent-Length: 9000000\r\n\r\n${'x'.repeat(200_000)}`,
    'SSH-2.0-nobody\r\n',
    '',
  ];
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.end(answers.shift() ?? '');
  }).listen(path);
  t.after(() => server.close());
  await once(server, 'listening');
  const taken = new FirecrackerApi(through(path), AbortSignal.timeout(20_000));
  const asked = { method: 'GET', path: '/version' } as const;
  await assert.rejects(
    taken.send(asked),
    (error: Error) => /^[\x20-\x7e]+$/.test(error.message) && error.message.includes('owned'),
  );
  for (let rest = 0; rest < 3; rest += 1)
    await assert.rejects(taken.send(asked), /does not answer GET \/version/);
});

test('a VMM that was taken over is heard no longer than it is waited for, whatever it turns to', async (t) => {
  const path = join(directory, 'turns.sock');
  const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: silence\r\n\r\n';
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.end(upgrade);
  }).listen(path);
  t.after(() => server.close());
  await once(server, 'listening');
  const taken = new FirecrackerApi(through(path), AbortSignal.timeout(500));
  const late = once(AbortSignal.timeout(10_000), 'abort').then(() => 'still waits');
  const heard = taken.send({ method: 'GET', path: '/version' }).catch((error: Error) => error.name);
  assert.equal(await Promise.race([heard, late]), 'TimeoutError');
});

test('one that runs is not told to go on, and its guest hears of the end of its connections before one that stands still goes on', async (t) => {
  const path = join(directory, 'still.sock');
  let state = 'Running';
  const asked: string[] = [];
  const server = createHttpServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const [status, document] =
      request.url === '/' ? [200, { state }] : request.url === '/vm' ? [204] : [400, { fault_message: 'no' }];
    response.writeHead(status, { connection: 'close' }).end(document && JSON.stringify(document));
  }).listen(path);
  t.after(() => server.close());
  await once(server, 'listening');
  const signal = AbortSignal.timeout(20_000);
  await goOnMachine(through(path), signal);
  assert.deepEqual(asked.splice(0), ['GET /']);
  state = 'Paused';
  await goOnMachine(through(path), signal);
  assert.deepEqual(asked, ['GET /', 'PUT /snapshot/create', 'PATCH /vm']);
});

test('what an earlier one has written, and nobody has fetched, is dropped before the next one starts', async () => {
  const taken: string[] = [];
  const silent: ToVmm = async () => {
    const [ours, its] = duplexPair();
    its.once('data', (bytes: Buffer) => {
      taken.push(/saved\.\w+/.exec(bytes.toString('latin1'))?.[0] ?? 'another');
      its.end(encodeFields('ok', []));
    });
    return ours;
  };
  const start = { socket: '/v', control: '/c', commands: [] };
  await assert.rejects(startMachine(start, silent, AbortSignal.timeout(20_000)), { code: 'guest_failed' });
  assert.deepEqual(taken.slice(0, 2), ['saved.memory', 'saved.state']);
});
