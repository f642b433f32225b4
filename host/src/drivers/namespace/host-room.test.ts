/** What a control group leaves of the host's memory, by files as the kernel writes them. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { HostRoomMeter } from './host-room.ts';

const mib = 1_048_576;

function place(own: string, groups: Readonly<Record<string, Readonly<Record<string, string | number>>>>) {
  const directory = mkdtempSync(join(tmpdir(), 'squash-groups-'));
  const write = (group: string, file: string, text: string | number) =>
    writeFileSync(join(directory, group, file), `${text}\n`);
  for (const [group, files] of Object.entries(groups)) {
    mkdirSync(join(directory, group), { recursive: true });
    for (const [file, text] of Object.entries(files)) write(group, file, text);
  }
  write('.', 'own', own);
  const meter = new HostRoomMeter(directory, { own: join(directory, 'own'), tree: directory });
  return {
    write,
    memory: () => meter.read().memory,
    [Symbol.dispose]: () => {
      meter[Symbol.dispose]();
      rmSync(directory, { recursive: true });
    },
  };
}

test('idle files of all groups below count as available with cgroup v1', () => {
  const stat = `cache 9\ninactive_file ${2 * mib}\ntotal_cache 9\ntotal_inactive_file ${20 * mib}`;
  using at = place('3:memory:/box', {
    'memory/box': {
      'memory.limit_in_bytes': 64 * mib,
      'memory.usage_in_bytes': 60 * mib,
      'memory.stat': stat,
    },
  });
  assert.deepEqual(at.memory(), { totalBytes: 64 * mib, availableBytes: 24 * mib });
});

test('a limit counts from when it is set, whichever group above has it', () => {
  const files = {
    'memory.max': 'max',
    'memory.current': 10 * mib,
    'memory.stat': `inactive_file ${4 * mib}`,
  };
  using at = place('0::/slice/unit', { slice: files, 'slice/unit': files });
  assert.ok(at.memory().totalBytes > 64 * mib);
  at.write('slice', 'memory.max', 64 * mib);
  assert.deepEqual(at.memory(), { totalBytes: 64 * mib, availableBytes: 58 * mib });
  at.write('slice', 'memory.max', 'max');
  assert.ok(at.memory().totalBytes > 64 * mib);
});
