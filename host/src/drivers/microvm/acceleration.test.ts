/** When KVM is tried, who shares what was found, and what becomes of it. The trial itself is `kvm-probe.test.ts`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Acceleration, type AccelerationOptions } from './acceleration.ts';
import type { VmFiles } from './vm-module.ts';

const module = (name: string): VmFiles => ({ root: `vm/${name}`, initrd: 'vm/initrd' });
/** There on every machine. */
const device = '/dev/null';

/** One whose trials end as told, and the modules that were tried. */
function tried(ends: readonly (string | Error | undefined)[], options: Partial<AccelerationOptions> = {}) {
  const trials: string[] = [];
  const acceleration = new Acceleration({
    wanted: 'auto',
    device,
    probe: async ({ root }) => {
      const end = ends[trials.length];
      trials.push(root);
      await new Promise((resolve) => setImmediate(resolve));
      if (end instanceof Error) throw end;
      return end;
    },
    ...options,
  });
  const finding = (): ReturnType<Acceleration['finding']> =>
    acceleration.finding(async (work) => await work(module('one')));
  return { acceleration, trials, finding };
}

test('all who ask share one trial of a module, and another module has another', async () => {
  const { acceleration, trials, finding } = tried([undefined, 'it hangs']);
  const one = module('one');
  assert.deepEqual(await Promise.all([acceleration.of(one), acceleration.of(one)]), ['kvm', 'kvm']);
  assert.deepEqual(await finding(), { state: 'used' });
  assert.deepEqual(trials, ['vm/one']);
  assert.equal(await acceleration.of(module('two')), 'tcg');
  assert.equal(await acceleration.of(module('two')), 'tcg');
  assert.deepEqual(trials, ['vm/one', 'vm/two']);
});

test('where nothing could be tried it is tried again', async () => {
  const { acceleration, finding } = tried([new Error('no launcher'), new Error('none yet'), undefined]);
  await assert.rejects(acceleration.of(module('one')), /no launcher/);
  assert.deepEqual(await finding(), { state: 'untried' });
  assert.equal(await acceleration.of(module('one')), 'kvm');
});

test('where KVM is asked for and fails there is no VM, with the reason', async () => {
  const { acceleration, finding } = tried(['it hangs'], { wanted: 'kvm' });
  const refused = { code: 'vm_unavailable', message: /SQUASH_VM_ACCEL is "kvm".*it hangs.*"auto"/ };
  await assert.rejects(acceleration.of(module('one')), refused);
  assert.deepEqual(await finding(), { state: 'fails', why: 'it hangs', isNeeded: true });
});

test('without a device, and where all is to be emulated, nothing is tried', async () => {
  const missing = tried([], { device: '/dev/none' });
  assert.equal(await missing.acceleration.of(module('one')), 'tcg');
  assert.deepEqual(await missing.finding(), { state: 'fails', why: 'no /dev/none', isNeeded: false });
  const off = tried([], { wanted: 'tcg' });
  assert.equal(await off.acceleration.of(module('one')), 'tcg');
  assert.deepEqual(await off.finding(), { state: 'off' });
  assert.deepEqual([missing.trials, off.trials], [[], []]);
});

test('nobody is told what is not known yet, and one whose end is asked for gives a trial up and waits for that', async () => {
  let isOver = false;
  const { acceleration, finding } = tried([], {
    probe: async (_, signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      isOver = true;
      return signal.throwIfAborted() ?? undefined;
    },
  });
  const asked = assert.rejects(acceleration.of(module('one')), { name: 'AbortError' });
  assert.deepEqual(await finding(), { state: 'trying' });
  await acceleration[Symbol.asyncDispose]();
  assert.ok(isOver);
  await asked;
});
