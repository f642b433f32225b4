/** The events' table: what its bounds take away, from whom, and what is known of it behind. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '@squash/contract/limits';
import fc from 'fast-check';
import { testStore } from '../../../tests/support/store.ts';
import { shareOf } from './events.ts';
import type { Store } from './store.ts';

const everything = { types: null, sandbox: null, owner: null, limit: limits.eventsMax * 2 } as const;

function tell(store: Store, owner: string, data = {}): void {
  store.events.insert({ atMs: 1, type: 'sandbox.created', sandbox: 'dev', owner, data });
}

test('whoever has most events gives, and what was removed is told to him alone', () => {
  using file = testStore();
  const { store } = file;
  store.transaction(() => {
    for (let at = 0; at < 10; at += 1) tell(store, 'quiet');
    while (!store.events.isOverfull) tell(store, 'loud');
  });
  const before = store.events.newest();
  store.transaction(() => store.events.prune());
  const kept = store.events.page({ ...everything, after: 0 });
  assert.equal(kept.length, limits.eventsMax);
  assert.equal(kept.filter(({ owner }) => owner === 'quiet').length, 10);
  assert.equal(store.events.removedBefore('quiet'), 0);
  const firstLoud = kept.find(({ owner }) => owner === 'loud');
  assert.equal(store.events.removedBefore('loud'), firstLoud?.id);
  assert.equal(store.events.removedBefore(null), firstLoud?.id);
  assert.equal(kept.at(-1)?.id, before);
  // The next daemon knows the same.
  assert.equal(file.reopen().events.removedBefore('loud'), firstLoud?.id);
});

test('owners without end leave bounded traces, and none of them is told of too small a gap', () => {
  using file = testStore();
  const { store } = file;
  store.transaction(() => {
    for (let at = 0; !store.events.isOverfull; at += 1) {
      for (const _twice of [1, 2]) tell(store, `owner-${at}`);
    }
    store.events.prune();
  });
  assert.ok(store.events.page({ ...everything, after: 0 }).length <= limits.eventsMax);
  const owners = new Set(store.events.page({ ...everything, after: 0 }).map(({ owner }) => owner));
  for (const owner of owners) {
    const [first] = store.events.page({ ...everything, after: 0, owner, limit: 1 });
    // Each has lost the one before. Whose own trace went is told of more than was his, never of less.
    assert.ok(store.events.removedBefore(owner) >= (first?.id ?? Infinity), owner);
  }
  assert.ok(store.events.removedBefore('nobody') > 0);
});

test('ids are not used again when a power cut has taken the last ones', () => {
  using file = testStore();
  const { store } = file;
  store.transaction(() => tell(store, 'anon'));
  store.transaction(() => store.events.skipLost());
  store.transaction(() => tell(store, 'anon'));
  assert.ok(store.events.newest() > limits.eventsMax);
});

test('what an event says is bounded, whatever its texts hold', () => {
  using file = testStore();
  const { store } = file;
  store.transaction(() => {
    tell(store, 'anon', { reason: 'x'.repeat(100_000), size: 5 });
    tell(store, 'anon', { reason: '\u0000'.repeat(100_000) });
  });
  const [long, escaped] = store.events.page({ ...everything, after: 0 });
  assert.deepEqual(long?.data, { reason: 'x'.repeat(limits.eventTextCharsMax), size: 5 });
  assert.deepEqual(escaped?.data, { truncated: true });
});

test('shares of a bound fit into it and take from nobody who has less', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(1_000), { minLength: 1, maxLength: 50 }), fc.nat(5_000), (counts, total) => {
      const most = shareOf(counts, total);
      const kept = counts.map((count) => Math.min(count, most));
      const sum = kept.reduce((all, one) => all + one, 0);
      assert.ok(sum <= total || counts.every((count) => count <= most));
      const all = counts.reduce((some, one) => some + one, 0);
      // As much is kept as fits, but for what does not divide.
      if (all > total) assert.ok(sum > total - counts.length);
    }),
  );
});
