/** What a create says where the host does not offer everything. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Capability } from '@squash/contract/capability';
import { chooseUpperKind, hasNetwork, unenforced } from './host-limits.ts';

const limits = {
  memoryBytesMax: 67_108_864,
  cpuMilli: 1_000,
  pidsMax: 64,
  shmBytesMax: 1_048_576,
  openFilesMax: 1_024,
  upperBytesMax: 33_554_432,
  upperInodesMax: 4_096,
};

function found(name: string, changes: Partial<Capability> = {}): Capability {
  return {
    name,
    state: 'ok',
    required: false,
    found: 'it is there',
    choice: 'in use',
    weaker: null,
    remedy: null,
    ...changes,
  };
}

const all = ['cgroup_memory', 'cgroup_cpu', 'cgroup_pids', 'network'].map((name) => found(name));

test('a host that offers everything gives no warning, and a limit that is only measured gives one', () => {
  assert.deepEqual(unenforced(limits, 'image', all), []);
  const [only, ...more] = unenforced(limits, 'directory', all);
  assert.deepEqual([only?.code, more], ['upper_limit', []]);
  assert.match(only?.message ?? '', /held to 32 MB by measuring/);
});

test('a kernel without packet rules gives a sandbox no network, and a create says which part is missing', () => {
  const why = 'the kernel takes no packet rules (nf_tables, nft_tproxy): Operation not supported';
  const host = [...all.slice(0, 3), found('network', { state: 'weaker', found: why })];
  assert.equal(hasNetwork(host), false);
  assert.deepEqual(unenforced(limits, 'image', host), [
    { code: 'network', message: `the sandbox has no network: ${why} (see squash doctor)` },
  ]);
});

test('a limit without its control group is told with its own code', () => {
  for (const [name, code] of [
    ['cgroup_memory', 'memory_limit'],
    ['cgroup_cpu', 'cpu_limit'],
    ['cgroup_pids', 'pids_limit'],
  ] as const) {
    const host = all.filter((each) => each.name !== name);
    assert.deepEqual(
      unenforced(limits, 'image', host).map((warning) => warning.code),
      [code],
    );
  }
});

test('the kind of the writable layer is the strongest there is, and one that is not there is refused', () => {
  const host = [found('upper_project', { state: 'missing', found: 'no quotas' }), found('upper_image')];
  assert.equal(chooseUpperKind('auto', host), 'image');
  assert.equal(chooseUpperKind('auto', []), 'directory');
  assert.equal(chooseUpperKind('tmpfs', host), 'tmpfs');
  assert.throws(() => chooseUpperKind('project', host), { code: 'config_invalid', message: /no quotas/ });
});
