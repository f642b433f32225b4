/** Which of the kernel's answers counts. Whose connections are is tested in `tests/e2e/api-local-users.test.ts`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerTo } from './connection-owner.ts';

/** `struct nlmsghdr` with what is read of `struct inet_diag_msg`; type 2 is an error. */
function message(sequence: number, uid: number, type = 20): Buffer {
  const bytes = Buffer.alloc(type === 20 ? 88 : 36);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeUInt16LE(type, 4);
  bytes.writeUInt32LE(sequence, 8);
  if (type === 20) {
    bytes.writeUInt8(1, 17);
    bytes.writeUInt32LE(uid, 80);
    bytes.writeUInt32LE(77, 84);
  }
  return bytes;
}

function reading(messages: readonly Buffer[]): (into: Buffer) => number {
  const left = [...messages];
  return (into) => {
    const next = left.shift();
    if (next === undefined) throw Object.assign(new Error('EAGAIN'), { code: 'EAGAIN' });
    return next.copy(into);
  };
}

test('an answer that came late for an earlier question does not stand before the next one', () => {
  const facts = answerTo(3, reading([message(1, 0), message(2, 5, 2), message(3, 1_000)]));
  assert.deepEqual(facts, { state: 1, uid: 1_000, inode: 77 });
});

test('no answer, an error and a message cut short name nobody', () => {
  assert.throws(() => answerTo(3, reading([message(2, 0)])), { code: 'EAGAIN' });
  assert.equal(answerTo(3, reading([message(3, 0, 2)])), undefined);
  assert.equal(answerTo(3, reading([message(3, 0).subarray(0, 80)])), undefined);
  assert.equal(answerTo(3, reading([Buffer.alloc(0)])), undefined);
});
