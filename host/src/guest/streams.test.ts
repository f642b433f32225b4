/** Bytes between client and command: backpressure, windows, reconnecting without loss or repeat. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { encodeFields, FrameDecoder } from '@squash/contract/guest/codec';
import { guestWindowBytes } from '@squash/contract/guest/frames';
import { drain, guestIsMissing, RealGuest, specOf } from '../../../tests/support/real-guest.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const options = { skip: guestIsMissing };
/** Prints numbers, so that a lost or repeated byte shows; the total is known. */
const countTo = (last: number): string[] => ['seq', '1', String(last)];
const counted = (last: number): string => Array.from({ length: last }, (_, i) => `${i + 1}\n`).join('');

async function residentKib(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]);
}

async function writtenBytes(pid: number): Promise<number> {
  const io = await readFile(`/proc/${pid}/io`, 'utf8');
  return Number(/wchar: (\d+)/.exec(io)?.[1]);
}

test('a client that does not acknowledge stalls the command, not the memory of PID 1', options, async () => {
  await using guest = await RealGuest.start();
  const before = await residentKib(guest.pid);
  const exec = await guest.client.exec(specOf(['head', '-c', '100000000', '/dev/zero']));
  const events = exec.events();
  let received = 0;
  while (received < guestWindowBytes) {
    const { value } = await events.next();
    assert.ok(value?.type === 'output');
    received += value.data.length;
  }
  assert.equal(received, guestWindowBytes);
  let written = -1;
  let unchanged = 0;
  await waitFor('the command is stalled', async () => {
    const last = written;
    written = await writtenBytes(exec.pid);
    unchanged = written === last ? unchanged + 1 : 0;
    return unchanged === 10;
  });
  assert.ok(written <= 3 * guestWindowBytes, `it wrote ${written} bytes`);
  assert.ok((await residentKib(guest.pid)) - before < 512);
  exec.ack(received, 0);
  const rest = await drain(exec, { stdout: received, stderr: 0 });
  assert.equal(rest.outcome.stdoutBytes, 100_000_000);
  assert.equal(rest.stdout.length, 100_000_000 - received);
  assert.ok((await residentKib(guest.pid)) - before < 512);
});

test('stdin comes back byte for byte, however much it is', options, async () => {
  await using guest = await RealGuest.start();
  const sent = Buffer.alloc(3_000_000, 'squash');
  const exec = await guest.client.exec(specOf(['sha256sum'], { stdin: 'pipe' }));
  await exec.writeStdin(sent);
  exec.endStdin();
  assert.equal((await drain(exec)).stdout.slice(0, 64), createHash('sha256').update(sent).digest('hex'));
  const echo = await guest.client.exec(specOf(['cat'], { stdin: 'pipe' }));
  const writing = echo.writeStdin(sent).then(() => echo.endStdin());
  const ran = await drain(echo);
  await writing;
  assert.equal(ran.stdout, sent.toString('latin1'));
});

test('stdin that nobody reads delays neither signals nor output', options, async () => {
  await using guest = await RealGuest.start();
  const script = 'trap "echo caught; exit 0" TERM; echo ready; sleep 60 & wait';
  const exec = await guest.client.exec(specOf(['sh', '-c', script], { stdin: 'pipe' }));
  const writing = exec.writeStdin(Buffer.alloc(1_000_000));
  await exec.events().next();
  exec.signal(15);
  assert.equal((await drain(exec, { stdout: 6, stderr: 0 })).stdout, 'caught\n');
  await writing; // Resolves though it was never read: the command has ended.
});

test('stdin that a command has closed is taken and dropped', options, async () => {
  await using guest = await RealGuest.start();
  const exec = await guest.client.exec(
    specOf(['sh', '-c', 'exec <&-; read x <&1; sleep 0.2; echo end'], { stdin: 'pipe' }),
  );
  await exec.writeStdin(Buffer.alloc(500_000));
  exec.endStdin();
  assert.equal((await drain(exec)).stdout, 'end\n');
});

test(
  'an exec goes on while nobody is attached and is found again with its output and exit',
  options,
  async () => {
    await using guest = await RealGuest.start();
    const spec = specOf(['sh', '-c', 'echo before; sleep 0.1; echo after; exit 6']);
    const first = await guest.client.exec(spec);
    first.close();
    await assert.rejects(drain(first), AppError);
    await waitFor('it has ended', async () => (await guest.client.list())[0]?.running === false);
    const again = await guest.client.attach(spec.execId, { stdout: 0, stderr: 0 });
    const ran = await drain(again);
    assert.equal(ran.stdout, 'before\nafter\n');
    assert.equal(ran.outcome.exitCode, 6);
    await waitFor('it is forgotten', async () => (await guest.client.list()).length === 0);
    await assert.rejects(guest.client.attach(spec.execId, { stdout: 0, stderr: 0 }), /no exec has this id/);
  },
);

test('an exit that was not released is told to every client that attaches', options, async () => {
  await using guest = await RealGuest.start();
  const spec = specOf(['sh', '-c', 'echo x; exit 5']);
  for (let i = 0, exec = await guest.client.exec(spec); i < 3; i++) {
    for await (const event of exec.events())
      if (event.type === 'exit') assert.equal(event.outcome.exitCode, 5);
    exec.close();
    exec = await guest.client.attach(spec.execId, { stdout: 0, stderr: 0 });
    if (i === 2) await drain(exec);
  }
});

test('reconnecting at every frame loses nothing and repeats nothing', options, async () => {
  await using guest = await RealGuest.start();
  const last = 60_000;
  const spec = specOf(countTo(last));
  const stored = { stdout: 0, stderr: 0 };
  const chunks: Buffer[] = [];
  let exec = await guest.client.exec(spec);
  for (let connections = 1; ; connections++) {
    const { value } = await exec.events().next();
    assert.ok(value !== undefined);
    if (value.type === 'exit') {
      assert.ok(connections > 5);
      break;
    }
    chunks.push(value.data);
    stored.stdout += value.data.length;
    // Sometimes told, sometimes only stored: both are what a daemon that dies leaves.
    if (connections % 2 === 0) exec.ack(stored.stdout, 0);
    exec.close();
    exec = await guest.client.attach(spec.execId, stored);
  }
  exec.release();
  assert.equal(Buffer.concat(chunks).toString(), counted(last));
});

test('reconnecting at any byte loses nothing and repeats nothing', options, async () => {
  await using guest = await RealGuest.start();
  const last = 40_000;
  const spec = specOf(countTo(last));
  (await guest.client.exec(spec)).close();
  const chunks: Buffer[] = [];
  let stored = 0;
  let isOver = false;
  // Cuts the connection after an odd number of bytes, in the middle of headers and payloads.
  for (let cut = 1; !isOver; cut += 9_777) {
    const socket = await guest.connect();
    const decoder = new FrameDecoder();
    socket.write(
      encodeFields('attach', [
        ['execId', spec.execId],
        ['stdoutOffset', stored],
        ['stderrOffset', 0],
      ]),
    );
    let left = cut % 100_000; // A frame can have 64 KiB: some cuts must be behind a whole one.
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      for (const frame of decoder.decode(chunk.subarray(0, left))) {
        if (frame.type === 'exit') isOver = true;
        if (frame.kind !== 'data') continue;
        chunks.push(Buffer.from(frame.data));
        stored += frame.data.length;
        const offsets = [
          ['stdoutOffset', stored],
          ['stderrOffset', 0],
        ] as const;
        socket.write(encodeFields('ack', offsets)); // Else the guest stops before the cut is reached.
      }
      left -= chunk.length;
      if (left <= 0 || isOver) break;
    }
    socket.destroy();
  }
  assert.equal(Buffer.concat(chunks).toString(), counted(last));
});

test('attaching outside of what is kept is refused', options, async () => {
  await using guest = await RealGuest.start();
  const spec = specOf(['sh', '-c', 'echo 0123456789; sleep 60']);
  const exec = await guest.client.exec(spec);
  await exec.events().next();
  exec.close();
  await assert.rejects(guest.client.attach(spec.execId, { stdout: 12, stderr: 0 }), /not kept/);
  (await guest.client.attach(spec.execId, { stdout: 5, stderr: 0 })).close();
  await assert.rejects(guest.client.attach(spec.execId, { stdout: 4, stderr: 0 }), /not kept/);
  const found = await guest.client.attach(spec.execId, { stdout: 5, stderr: 0 });
  const { value } = await found.events().next();
  assert.ok(value?.type === 'output');
  assert.equal(value.data.toString(), '56789\n');
  found.signal(9);
});

test('the newer of two clients has the exec', options, async () => {
  await using guest = await RealGuest.start();
  const spec = specOf(['cat'], { stdin: 'pipe' });
  const older = await guest.client.exec(spec);
  const newer = await guest.client.attach(spec.execId, { stdout: 0, stderr: 0 });
  await assert.rejects(older.events().next(), { code: 'guest_failed' });
  await newer.writeStdin(Buffer.from('hello'));
  newer.endStdin();
  assert.equal((await drain(newer)).stdout, 'hello');
});

test('stdin goes on over a reconnect where the first client stopped', options, async () => {
  await using guest = await RealGuest.start();
  const spec = specOf(['cat'], { stdin: 'pipe' });
  const first = await guest.client.exec(spec);
  await first.writeStdin(Buffer.from('one '));
  const { value } = await first.events().next();
  assert.ok(value?.type === 'output');
  first.close();
  const second = await guest.client.attach(spec.execId, { stdout: value.data.length, stderr: 0 });
  await second.writeStdin(Buffer.from('two'));
  second.endStdin();
  assert.equal((await drain(second, { stdout: 4, stderr: 0 })).stdout, 'two');
});

test('an end of stdin that is said again over a reconnect changes nothing', options, async () => {
  await using guest = await RealGuest.start();
  const spec = specOf(['sh', '-c', 'cat; sleep 0.3; echo end'], { stdin: 'pipe' });
  const first = await guest.client.exec(spec);
  await first.writeStdin(Buffer.from('in\n'));
  first.endStdin();
  const second = await guest.client.attach(spec.execId, { stdout: 0, stderr: 0 });
  second.endStdin();
  const { stdout, outcome } = await drain(second);
  assert.deepEqual([stdout.toString(), outcome.exitCode], ['in\nend\n', 0]);
});

test('64 commands at once each get their own bytes', options, async () => {
  await using guest = await RealGuest.start();
  const ran = await Promise.all(
    Array.from({ length: 64 }, async (_, i) =>
      drain(await guest.client.exec(specOf(['sh', '-c', `seq ${i} ${i + 5000}; echo ${i} >&2; exit ${i}`]))),
    ),
  );
  for (const [i, { stdout, stderr, outcome }] of ran.entries()) {
    assert.equal(stdout, Array.from({ length: 5001 }, (_, n) => `${i + n}\n`).join(''));
    assert.equal(stderr, `${i}\n`);
    assert.equal(outcome.exitCode, i);
  }
});

test('both streams at full speed arrive whole', options, async () => {
  await using guest = await RealGuest.start();
  const script = 'seq 1 200000 & seq 1 200000 >&2; wait';
  const ran = await drain(await guest.client.exec(specOf(['sh', '-c', script])));
  assert.equal(ran.stdout, counted(200_000));
  assert.equal(ran.stderr, counted(200_000));
});
