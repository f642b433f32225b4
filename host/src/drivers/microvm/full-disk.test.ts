/** Machines that stand still for want of room, among VMMs that somebody has taken over. What a real QEMU does is in tests/faults/microvm-full-disk.test.ts. */
import assert from 'node:assert/strict';
import { type Duplex, duplexPair } from 'node:stream';
import { test } from 'node:test';
import { encodeFields } from '@squash/contract/guest/codec';
import { waitFor } from '../../../../tests/support/wait.ts';
import { FullDisk, retryMachine } from './full-disk.ts';
import { partMachine } from './qemu-copies.ts';

/** QEMU's side of a connection, which answers a line with what `says` gives for it. */
function answers(qemus: Duplex, says: (line: string) => string | undefined): void {
  qemus.on('error', () => undefined);
  qemus.write('{"QMP": {}}\n');
  qemus.on('data', (line: Buffer) => {
    const answer = says(line.toString());
    if (answer !== undefined) qemus.write(`{"return": ${answer}}\n`);
  });
}

/** Connections to a VMM's sandbox, whose PID 1 lets through to QEMU. */
function vmm(says: (line: string) => string | undefined): () => Promise<Duplex> {
  return async () => {
    const [ours, its] = duplexPair();
    its.once('data', () => {
      its.write(encodeFields('ok', []));
      answers(its, says);
    });
    return ours;
  };
}

/** As QEMU (7.2): what stops one that stands still for want of room changes nothing. */
const full = (line: string): string =>
  line.includes('query-status') ? '{"status": "io-error"}' : line.includes('qom-list') ? '[]' : '{}';

test('a machine is told to go on, however many others do not answer', async () => {
  let isTold = false;
  const silent = vmm(() => undefined);
  const honest = vmm((line) => {
    isTold ||= line.includes('"cont"');
    return full(line);
  });
  const vms = [...Array.from({ length: 20 }, () => silent), honest];
  using _fullDisk = new FullDisk(
    { retry: retryMachine },
    () => ({ totalBytes: 2, availableBytes: 0, markBytes: 1 }),
    () => vms,
  );
  await waitFor('it to be told', () => isTold, 15_000);
});

test('a machine that stands still for want of room is not saved, for it would go on meanwhile', async () => {
  await assert.rejects(partMachine(vmm(full), AbortSignal.timeout(10_000)), { code: 'disk_full' });
});
