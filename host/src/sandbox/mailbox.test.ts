/** Order, bounds and closing of a sandbox's queue, and the locks beside it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { Mailbox, Semaphore, SharedLock } from './mailbox.ts';

test('a mailbox runs operations in order, also behind one that failed', async () => {
  const mailbox = new Mailbox('m', 10);
  const order: number[] = [];
  const gate = Promise.withResolvers<void>();
  const first = mailbox.post(() => gate.promise.then(() => order.push(1)));
  const second = mailbox.post(() => Promise.reject(new Error('second')));
  const third = mailbox.post(async () => order.push(3));
  gate.resolve();
  await assert.rejects(second, /second/);
  await Promise.all([first, third]);
  assert.deepEqual(order, [1, 3]);
});

test('a mailbox refuses what exceeds its bound and what comes after its end', async () => {
  const mailbox = new Mailbox('m', 1);
  const gate = Promise.withResolvers<void>();
  const running = mailbox.post(() => gate.promise);
  const waiting = mailbox.post(async () => undefined);
  await assert.rejects(
    mailbox.post(async () => undefined),
    { code: 'sandbox_busy' },
  );
  mailbox.close(new AppError('shutting_down', 'stop'));
  await assert.rejects(waiting, { code: 'shutting_down' });
  await assert.rejects(
    mailbox.post(async () => undefined),
    { code: 'shutting_down' },
  );
  gate.resolve();
  await running;
  await mailbox.idle();
});

test('a semaphore never lets more in than it says', async () => {
  const semaphore = new Semaphore(2);
  let inside = 0;
  let most = 0;
  const body = async (): Promise<void> => {
    inside += 1;
    most = Math.max(most, inside);
    await Promise.resolve();
    inside -= 1;
  };
  await Promise.all(Array.from({ length: 20 }, () => semaphore.run(body)));
  assert.equal(most, 2);
});

test('a shared lock lets readers in together and a writer alone, in the order they came', async () => {
  const lock = new SharedLock();
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const readers = ['a', 'b'].map((name) => lock.shared(() => gate.promise.then(() => void order.push(name))));
  const writer = lock.exclusive(async () => void order.push('w'));
  const late = lock.shared(async () => void order.push('c'));
  gate.resolve();
  await Promise.all([...readers, writer, late]);
  assert.deepEqual(order, ['a', 'b', 'w', 'c']);
});
