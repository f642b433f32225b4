/** One may have much, never so much that the next gets nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairShare } from './fair-share.ts';

function mostOf(share: FairShare, who: string): number {
  let taken = 0;
  while (share.take(who)) taken += 1;
  return taken;
}

test('each of several greedy ones leaves as much as it holds for the next', () => {
  const share = new FairShare(120);
  assert.equal(mostOf(share, 'a'), 60);
  assert.equal(mostOf(share, 'b'), 30);
  assert.equal(mostOf(share, 'c'), 15);
  assert.ok(mostOf(share, 'd') > 0);
});

test('what is given back can be taken again', () => {
  const share = new FairShare(10);
  assert.equal(share.take('a', 6), false);
  assert.equal(share.take('a', 5), true);
  assert.equal(share.take('b', 3), false);
  share.give('a', 5);
  assert.equal(share.take('b', 5), true);
});
