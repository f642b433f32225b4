/** Which machine QEMU is told to be. On KVM it is run by nobody here: what is said of it is all that is shown. */
import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import { vmPlan } from '../../../../tests/support/vm-plan.ts';
import { qemu } from './qemu.ts';
import { templateKind } from './templates.ts';
import type { VmPlan } from './vmm.ts';
import type { VmmStart } from './vmm-channel.ts';

function starts(planned: VmPlan): readonly VmmStart[] {
  const { copies } = qemu;
  assert.ok(copies);
  return [qemu.start(planned), copies.still(planned, [4096]), copies.copy(planned, '/drives/memory')];
}

/** What follows an option in QEMU's words. */
function option({ commands }: VmmStart, name: string): string | undefined {
  const words = commands.find(({ argv }) => argv[0]?.includes('qemu'))?.argv ?? [];
  return words[words.indexOf(`-${name}`) + 1];
}

test('on KVM it has the host’s processors, as many as its limit and the host have, and nothing that emulation needs', () => {
  const most = availableParallelism();
  for (const [cpuMilli, wanted] of [
    [10, 1],
    [1_000, 1],
    [1_001, 2],
    [1_024_000, 32],
  ] as const) {
    for (const start of starts(vmPlan({ cpuMilli }))) {
      assert.equal(option(start, 'accel'), 'kvm');
      assert.match(option(start, 'cpu') ?? '', /^host(,arch-capabilities=off)?$/);
      assert.equal(option(start, 'smp'), String(Math.min(wanted, most)));
      assert.doesNotMatch(option(start, 'append') ?? '', /tsc|no_timer_check/);
    }
  }
  assert.deepEqual(qemu.devices?.(vmPlan({})), ['kvm']);
});

test('emulated it has one processor, the words for its clock, room for translated code and no device of the host', () => {
  const emulated = vmPlan({ accelerator: 'tcg', cpuMilli: 4_000 });
  for (const start of starts(emulated)) {
    assert.match(option(start, 'accel') ?? '', /^tcg,thread=single,/);
    assert.deepEqual([option(start, 'cpu'), option(start, 'smp')], ['max', '1']);
    assert.match(
      option(start, 'append') ?? '',
      / tsc=reliable tsc_early_khz=\{tsc_khz\} no_timer_check( |$)/,
    );
  }
  assert.deepEqual(qemu.devices?.(emulated), []);
  assert.ok(qemu.overheadBytes('tcg') > qemu.overheadBytes('kvm'));
});

test('machines of two accelerators have no template in common', () => {
  const kindOf = (accelerator: VmPlan['accelerator']): string => {
    const still = qemu.copies.still(vmPlan({ accelerator, cpuMilli: 1_000 }), [4096]);
    const module = { root: 'vm/x', initrd: 'vm/initrd-x' };
    return templateKind({ module, program: undefined }, still).kind;
  };
  assert.notEqual(kindOf('kvm'), kindOf('tcg'));
});
