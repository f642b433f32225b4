/** Watches through a real PID 1: one child of it serves all. */
import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { GuestErrno } from './guest-error.ts';
import { guestIsMissing, RealGuest } from '../../../tests/support/real-guest.ts';
import { waitFor } from '../../../tests/support/wait.ts';

type Watch = AsyncGenerator<{ readonly change: string; readonly path: Buffer }, void, void>;

const options = { skip: guestIsMissing };
const asRoot = { skip: guestIsMissing || (process.getuid?.() === 0 ? false : 'needs root') };

const withErrno = (errno: string) => (error: unknown) =>
  error instanceof AppError && error.cause instanceof GuestErrno && error.cause.code === errno;

test(
  'a watch tells changes, in directories made later too, and ends with what it watches',
  options,
  async () => {
    await using guest = await RealGuest.start();
    const root = join(guest.directory, 'watched');
    await mkdir(join(root, 'before'), { recursive: true });
    const watch = await guest.client.files.watch(root, { recursive: true });
    const first = watch.next();
    await waitFor('the watch is in place', async () => {
      await writeFile(join(root, 'before/file'), 'x');
      return Promise.race([
        first.then(() => true),
        new Promise<boolean>((resolve) => setImmediate(resolve, false)),
      ]);
    });
    const seen = new Set<string>();
    const see = async (change: string, path: string): Promise<void> => {
      while (!seen.has(`${change} ${path}`)) seen.add(await heard(watch));
    };
    await mkdir(join(root, 'after'));
    await see('created', 'after');
    await writeFile(join(root, 'after/inside'), 'x');
    await see('created', 'after/inside');
    await guest.client.files.move(join(root, 'after/inside'), join(root, 'before/here'));
    await see('moved', 'before/here');
    await guest.client.files.remove(join(root, 'before/here'));
    await see('removed', 'before/here');
    await guest.client.files.remove(root, { recursive: true });
    for await (const { change } of watch) assert.ok(change.length > 0);
  },
);

/** The next change and its path. */
async function heard(watch: Watch): Promise<string> {
  const { value } = await watch.next();
  assert.ok(value !== undefined, 'the watch ended');
  return `${value.change} ${value.path.toString()}`;
}

/** Of PID 1 and below, by what they are. */
async function watchersOf(guest: RealGuest): Promise<number> {
  const text = await readFile(`/proc/${guest.pid}/task/${guest.pid}/children`, 'utf8');
  return text.split(' ').filter((pid) => pid !== '').length;
}

/** Descriptors of the one child there is, or 0. */
async function watchedBy(guest: RealGuest): Promise<number> {
  const [pid = ''] = (await readFile(`/proc/${guest.pid}/task/${guest.pid}/children`, 'utf8')).split(' ');
  return pid === '' ? 0 : (await readdir(`/proc/${pid}/fd`)).length;
}

test('a watch ends when it is aborted, and the watcher when nothing is watched', options, async () => {
  await using guest = await RealGuest.start();
  await assert.rejects(guest.client.files.watch('/no/such/place'), withErrno('ENOENT'));
  const abort = new AbortController();
  const watch = await guest.client.files.watch(guest.directory, {}, abort.signal);
  const next = watch.next();
  assert.equal(await watchersOf(guest), 1);
  abort.abort(new Error('enough'));
  await assert.rejects(next, /enough/);
  await waitFor('the watcher is gone', async () => (await watchersOf(guest)) === 0);
});

test('what is watched again right behind the end of a watcher is watched', options, async () => {
  await using guest = await RealGuest.start();
  for (const pause of [0, 1_990, 2_000, 2_010]) {
    const abort = new AbortController();
    const watch = await guest.client.files.watch(guest.directory, {}, abort.signal);
    await writeFile(join(guest.directory, 'file'), String(pause));
    assert.equal((await watch.next()).value?.path.toString(), 'file');
    abort.abort(new Error('enough'));
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
});

test('a directory that leaves the tree is no longer told of, one that comes is', options, async () => {
  await using guest = await RealGuest.start();
  const [root, outside] = ['root', 'outside'].map((name) => join(guest.directory, name)) as [string, string];
  await mkdir(join(root, 'a/b'), { recursive: true });
  await mkdir(outside);
  const watch = await guest.client.files.watch(root, { recursive: true });
  await rename(join(root, 'a'), join(outside, 'a'));
  await rename(join(outside, 'a/b'), join(root, 'b'));
  for (const path of ['a', 'b']) assert.equal(await heard(watch), `moved ${path}`);
  await writeFile(join(outside, 'a/unseen'), '');
  await writeFile(join(root, 'b/seen'), '');
  await chmod(join(root, 'b/seen'), 0o600);
  for (const change of ['created', 'attributes']) assert.equal(await heard(watch), `${change} b/seen`);
});

test('a thousand watches cost one process, and each is told', options, async () => {
  await using guest = await RealGuest.start({ openFilesMax: 4096 });
  const names = Array.from({ length: 1_000 }, (_, i) => `d${i % 500}`);
  for (const name of new Set(names)) await mkdir(join(guest.directory, name));
  const before = await memoryOf(guest);
  const watches: Watch[] = [];
  for (let at = 0; at < names.length; at += 50) {
    const some = names.slice(at, at + 50);
    const started = some.map((name) =>
      guest.client.files.watch(join(guest.directory, name), { recursive: true }),
    );
    watches.push(...(await Promise.all(started)));
  }
  await waitFor('only the watcher is left', async () => (await watchersOf(guest)) === 1);
  const cost = (await memoryOf(guest)) - before;
  // With sanitizers each allocation costs more.
  const costMax = process.env['SQUASH_INIT_PROGRAM'] === undefined ? 2_048 : 65_536;
  assert.ok(cost < costMax, `${cost} KiB for a thousand watches`);
  const first = watches.map((watch) => watch.next());
  for (const name of new Set(names)) await writeFile(join(guest.directory, name, 'file'), '');
  for (const one of await Promise.all(first)) assert.equal(one.value?.path.toString(), 'file');
  for (const watch of watches) await watch.return();
  // Its own: standard streams, channel, epoll, inotify.
  await waitFor('the watcher holds nothing of them', async () => (await watchedBy(guest)) <= 6);
});

test('who does not read a watch loses changes, is told so, and holds up nobody', options, async () => {
  await using guest = await RealGuest.start();
  const unread = await guest.client.files.watch(guest.directory);
  const read = await guest.client.files.watch(guest.directory);
  for (let round = 0; round < 4_000; round += 1) {
    const name = `${String(round).padStart(4, '0')}${'x'.repeat(200)}`;
    await writeFile(join(guest.directory, name), '');
    let heard = '';
    while (heard !== name) {
      const { value } = await read.next();
      assert.notEqual(value?.change ?? 'overflow', 'overflow');
      heard = value?.path.toString() ?? '';
    }
  }
  let told = 0;
  while ((await unread.next()).value?.change !== 'overflow') told += 1;
  assert.ok(told < 4_000, `${told} changes were kept`);
  await rm(join(guest.directory, `0000${'x'.repeat(200)}`));
  assert.equal((await unread.next()).value?.change, 'removed');
});

/** KiB that all processes of the guest hold for themselves. */
async function memoryOf(guest: RealGuest): Promise<number> {
  const children = await readFile(`/proc/${guest.pid}/task/${guest.pid}/children`, 'utf8');
  let sum = 0;
  for (const pid of [String(guest.pid), ...children.split(' ').filter((one) => one !== '')]) {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
    sum += Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1]);
  }
  return sum;
}

test('a watch as a user sees what that user may see', asRoot, async () => {
  await using guest = await RealGuest.start();
  const as = { uid: 12_345, gid: 23_456 };
  await mkdir(join(guest.directory, 'closed'), { mode: 0o700 });
  await mkdir(join(guest.directory, 'open/closed'), { recursive: true });
  await chmod(guest.directory, 0o755);
  await chmod(join(guest.directory, 'open/closed'), 0o700);
  await assert.rejects(
    guest.client.files.watch(join(guest.directory, 'closed'), { as }),
    withErrno('EACCES'),
  );
  const watch = await guest.client.files.watch(join(guest.directory, 'open'), { as, recursive: true });
  await writeFile(join(guest.directory, 'open/closed/unseen'), '');
  await writeFile(join(guest.directory, 'open/seen'), '');
  assert.equal((await watch.next()).value?.path.toString(), 'seen');
});
