/** Saving machines that run. Real ones are in tests/e2e/microvm-fork.test.ts and tests/e2e/firecracker-memory.test.ts. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { sandboxIdSchema } from '@squash/contract/ids';
import { ownedPrefix } from '../../../../tests/support/owned-directory.ts';
import { type RunningVm, VmForks } from './vm-fork.ts';
import type { MachineCopies } from './vmm.ts';

test('machines that are saved at once have room for the memories of all, and each goes on', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), ownedPrefix('vm-fork')));
  t.after(() => rm(directory, { recursive: true }));
  const written = Promise.withResolvers<never>();
  written.promise.catch(() => undefined); // Who is saved hears it.
  const goneOn: string[] = [];
  const vm = (name: string): RunningVm => {
    const copies: Pick<MachineCopies, 'part' | 'goOn'> = {
      part: async () => await written.promise,
      goOn: async () => void (await Promise.resolve(goneOn.push(name))),
    };
    return {
      id: sandboxIdSchema.parse(name),
      copies: copies as MachineCopies,
      connect: async () => await written.promise,
    };
  };
  const forks = new VmForks(directory, (bytes = 0) => bytes <= 100);
  const save = async (name: string): Promise<number> =>
    await forks.save(
      vm(name),
      { disk: '/disk', diskBytes: 1, memoryBytes: 60 },
      {
        to: { memory: join(directory, 'memory'), disk: join(directory, 'disk') },
        giveUp: AbortSignal.timeout(60_000),
      },
    );
  const first = assert.rejects(save('one'), { code: 'guest_failed' });
  await assert.rejects(save('two'), { code: 'disk_full' });
  written.reject(new AppError('guest_failed', 'Firecracker answers 400'));
  await first;
  await assert.rejects(save('three'), { code: 'guest_failed' });
  assert.deepEqual(goneOn, ['one', 'three']);
  assert.deepEqual(await readdir(join(directory, 'vm/forks')), []);
});
