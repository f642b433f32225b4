/** What a new daemon does with each kind of row and process. The doing is tested in `tests/faults/`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sandboxIdSchema } from '@squash/contract/ids';
import { planOf } from './recover.ts';

const id = sandboxIdSchema.parse('dev');

test('a sandbox that was half made or half removed goes, whatever runs', () => {
  for (const phase of ['creating', 'destroying'] as const) {
    for (const running of [undefined, { id, instance: 3, backend: 'chroot' as const }]) {
      assert.deepEqual(planOf({ phase, instance: 3 }, running), { do: 'remove' });
    }
  }
});

test('a running sandbox is taken over if it is the one the row names, replaced if not, and left alone by a daemon that can not work with its launcher', () => {
  for (const phase of ['ready', 'failed'] as const) {
    const running = { id, instance: 3, backend: 'chroot' as const };
    assert.deepEqual(planOf({ phase, instance: 3 }, running), { do: 'take-over', running });
    assert.deepEqual(planOf({ phase, instance: 3 }, running, true), { do: 'leave' });
    assert.deepEqual(planOf({ phase, instance: 4 }, running), { do: 'start' });
    assert.deepEqual(planOf({ phase, instance: 3 }, undefined), { do: 'start' });
  }
});
