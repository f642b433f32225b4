/** The order of layers and of snapshots on snapshots. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layerDigestSchema, moduleNameSchema, snapshotLabelSchema } from '@squash/contract/ids';
import type { LayerRef, SnapshotRow } from '#store/rows.ts';
import { prefixOf, snapshotChain, stackOrder } from './stacking.ts';

const layer = (name: string): LayerRef => ({
  module: moduleNameSchema.parse(name),
  digest: layerDigestSchema.parse('0'.repeat(64)),
});
const taken = (label: string, base: string | null): SnapshotRow => ({
  label: snapshotLabelSchema.parse(label),
  createdMs: 0,
  size: 0,
  digest: null,
  base: base === null ? null : snapshotLabelSchema.parse(base),
  layers: [],
  labels: {},
  memory: null,
});

test('layers are stacked by name, the highest on top, in whatever order they are asked for', () => {
  const names = ['200-c', '100-tool.10', '100-tool', '100-b', '100-a', '100-Z', '000-base'];
  for (const asked of [names, names.toReversed(), names.toSorted()]) {
    assert.deepEqual(
      stackOrder(asked.map(layer)).map(({ module }) => module),
      names,
    );
  }
});

test('a module whose name says no place is refused', () => {
  for (const name of ['base', '00-base', '0000-base', '100base', '100-', 'x100-y']) {
    assert.throws(() => prefixOf(moduleNameSchema.parse(name)), { code: 'invalid_request' }, name);
  }
});

test('a snapshot lies on the one it was taken on', () => {
  const snapshots = [taken('a', null), taken('b', 'a'), taken('c', 'a'), taken('d', 'c')];
  const chain = (label: string): readonly string[] =>
    snapshotChain(snapshots, snapshotLabelSchema.parse(label)).map((each) => each.label);
  assert.deepEqual(chain('d'), ['d', 'c', 'a']);
  assert.deepEqual(chain('a'), ['a']);
  assert.throws(() => chain('x'), { code: 'snapshot_not_found' });
});

test('snapshots that name each other, as only a broken database has, are refused', () => {
  const loop = [taken('a', 'b'), taken('b', 'a')];
  assert.throws(() => snapshotChain(loop, snapshotLabelSchema.parse('a')), { code: 'snapshot_not_found' });
});
