/** PID 1 at its limits and under hostile bytes: it refuses, stays small, and goes on. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { encodeData, encodeFields } from '@squash/contract/guest/codec';
import { type FieldName, fieldTags, frameTypes, guestLimits } from '@squash/contract/guest/frames';
import fc from 'fast-check';
import type { GuestExec } from './guest.ts';
import { drain, guestIsMissing, RealGuest, specOf } from '../../../tests/support/real-guest.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const options = { skip: guestIsMissing };
/** A program given by hand may carry sanitizers, whose shadow memory says nothing of its own. */
const isMeasured = process.env['SQUASH_INIT_PROGRAM'] === undefined;

async function memoryKib(pid: number, name: 'Rss' | 'Pss'): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1]);
}

const descriptorsOf = async (guest: RealGuest): Promise<number> =>
  (await readdir(`/proc/${guest.pid}/fd`)).length;

test('PID 1 is small when idle, also after much work', {
  skip: guestIsMissing || (isMeasured ? false : 'another program is tested'),
}, async () => {
  await using guest = await RealGuest.start();
  await guest.client.info();
  assert.ok((await memoryKib(guest.pid, 'Pss')) < 300);
  // And one by which the thread that starts commands tells of them.
  const before = (await descriptorsOf(guest)) + 1;
  for (let round = 0; round < 4; round++) {
    await Promise.all(
      Array.from({ length: 50 }, async () => drain(await guest.client.exec(specOf(['seq', '1', '20000'])))),
    );
  }
  await waitFor('everything is released', async () => (await descriptorsOf(guest)) === before);
  assert.ok((await memoryKib(guest.pid, 'Rss')) < 1024);
});

test('commands past the limit are refused and possible again afterwards', options, async () => {
  await using guest = await RealGuest.start();
  const running: GuestExec[] = [];
  for (let i = 0; i < guestLimits.execsLiveMax; i++)
    running.push(await guest.client.exec(specOf(['sleep', '60'])));
  await assert.rejects(guest.client.exec(specOf(['true'])), { code: 'exec_limit' });
  for (const exec of running) exec.signal(9);
  await Promise.all(running.map((exec) => drain(exec)));
  assert.equal((await drain(await guest.client.exec(specOf(['true'])))).outcome.exitCode, 0);
});

test('of too many ended commands the oldest is forgotten', options, async () => {
  await using guest = await RealGuest.start();
  const specs = Array.from({ length: guestLimits.execsKnownMax }, () => specOf(['true']));
  for (const spec of specs) {
    const exec = await guest.client.exec(spec);
    for await (const event of exec.events()) assert.equal(event.type, 'exit');
    exec.close();
  }
  const [oldest, second] = specs;
  assert.ok(oldest !== undefined && second !== undefined);
  assert.equal((await guest.client.list()).length, guestLimits.execsKnownMax);
  await drain(await guest.client.exec(specOf(['true'])));
  await assert.rejects(guest.client.attach(oldest.execId, { stdout: 0, stderr: 0 }), /no exec has this id/);
  await drain(await guest.client.attach(second.execId, { stdout: 0, stderr: 0 }));
});

test('out of descriptors PID 1 refuses, loses nothing, and recovers', options, async () => {
  await using guest = await RealGuest.start({ openFilesMax: 48 });
  const running: GuestExec[] = [];
  await assert.rejects(
    async () => {
      for (;;) running.push(await guest.client.exec(specOf(['sleep', '60'])));
    },
    { code: 'exec_failed', message: /\(EMFILE\)/ },
  );
  assert.ok(running.length > 3);
  // Connections alone use up what is left; those behind wait in the backlog until there is room.
  const pings = Promise.all(Array.from({ length: 100 }, () => guest.client.info()));
  for (const exec of running) exec.signal(9);
  for (const exec of running) assert.equal((await drain(exec)).outcome.signal, 9);
  await pings;
  await waitFor('a command can run again', async () => {
    const exec = await guest.client.exec(specOf(['echo', 'fine'])).catch(() => undefined);
    return exec !== undefined && (await drain(exec)).stdout === 'fine\n';
  });
});

test('idle connections past the limit are told so', options, async () => {
  await using guest = await RealGuest.start();
  const sockets = [];
  for (let i = 0; i < guestLimits.connectionsMax; i++) sockets.push(await guest.connect());
  await assert.rejects(guest.client.info(), { code: 'exec_limit' });
  for (const socket of sockets) socket.destroy();
  await waitFor('there is room again', () =>
    guest.client.info().then(
      () => true,
      () => false,
    ),
  );
});

/** Sends bytes and waits until PID 1 closes or has answered. */
async function poke(guest: RealGuest, bytes: Uint8Array): Promise<void> {
  const socket = await guest.connect();
  socket.on('error', () => socket.destroy()); // A reset is one of the right answers.
  socket.end(bytes);
  socket.resume();
  await once(socket, 'close');
}

test('hostile bytes on a fresh connection neither end nor grow PID 1', options, async () => {
  await using guest = await RealGuest.start();
  await guest.client.info(); // Only then it has become squash-init.
  const before = await descriptorsOf(guest);
  const integers = fc.constantFrom(0, 1, 2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER);
  const texts = fc.constantFrom('', '/', '/tmp', 'x', 'a\0b', '/no/such', 'x'.repeat(5000));
  const field = fc
    .constantFrom(...(Object.keys(fieldTags) as FieldName[]))
    .chain((name) =>
      (fieldTags[name].type === 'u64' ? integers : texts).map(
        (value): readonly [FieldName, number | string] => [name, value],
      ),
    );
  const requests = fc.constantFrom(
    'exec',
    'attach',
    'execList',
    'info',
    'dial',
    'fileStat',
    'fileRead',
    'fileList',
    'release',
    'ok',
  );
  const anything = fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    fc
      .tuple(requests, fc.array(field, { maxLength: 8 }))
      .map(([type, fields]) => encodeFields(type as 'ok', fields)),
    fc
      .tuple(fc.constantFrom(...Object.values(frameTypes)), fc.uint8Array({ maxLength: 40 }), fc.nat(80))
      .map(([type, payload, length]) => new Uint8Array([length, 0, 0, 0, type, 0, 0, 0, ...payload])),
  );
  await fc.assert(
    fc.asyncProperty(anything, (bytes) => poke(guest, bytes)),
    { numRuns: 400 },
  );
  await waitFor('all connections are closed', async () => (await descriptorsOf(guest)) <= before);
  if (isMeasured) assert.ok((await memoryKib(guest.pid, 'Rss')) < 1024);
  await guest.client.info();
});

test('hostile frames on an exec connection end it, and the command is found again', options, async () => {
  await using guest = await RealGuest.start();
  const frames: Record<string, Uint8Array> = {
    'stdin above the window': Buffer.concat([
      encodeData('stdin', Buffer.alloc(65_536)),
      encodeData('stdin', Buffer.alloc(65_536)),
      encodeData('stdin', Buffer.alloc(65_536)),
    ]),
    'two ends of stdin': Buffer.concat([encodeFields('stdinEof', []), encodeFields('stdinEof', [])]),
    'an acknowledgment of what was not sent': encodeFields('ack', [
      ['stdoutOffset', 1],
      ['stderrOffset', 0],
    ]),
    'signal 65': encodeFields('signal', [['signo', 65]]),
    'no signal': encodeFields('signal', []),
    'a terminal of 0 rows': encodeFields('resize', [
      ['rows', 0],
      ['columns', 1],
    ]),
    'a release while it runs': encodeFields('release', []),
    'a second request': encodeFields('exec', [['execId', 'x']]),
    'a long control frame': encodeFields('signal', [['message', 'x'.repeat(100)]]),
    'bytes that are no frame': Buffer.from('ffffffffffffffff', 'hex'),
  };
  for (const [name, bytes] of Object.entries(frames)) {
    const spec = specOf(['sleep', '60'], { stdin: 'pipe' });
    (await guest.client.exec(spec)).close();
    const socket = await guest.connect();
    const closed = once(socket, 'end');
    socket.resume().on('error', () => socket.destroy());
    socket.write(encodeFields('attach', [['execId', spec.execId]]));
    socket.write(bytes);
    await closed.catch(() => undefined);
    socket.destroy();
    const again = await guest.client.attach(spec.execId, { stdout: 0, stderr: 0 });
    again.signal(9);
    assert.ok((await drain(again)).outcome.signal !== undefined, name);
  }
});
