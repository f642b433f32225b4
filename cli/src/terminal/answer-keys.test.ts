/** Which keys are answers, by the times at which they come. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AnswerKeys } from './answer-keys.ts';

/** What counts of pieces that come at these times, looked at often. */
function pressedOf(...pieces: readonly (readonly [atMs: number, text: string])[]): readonly string[] {
  const keys = new AnswerKeys(0);
  const found: string[] = [];
  for (let nowMs = 0; nowMs <= 6_000; nowMs += 10) {
    for (const [atMs, text] of pieces) if (atMs === nowMs) keys.hear(Buffer.from(text));
    const key = keys.pressed(nowMs);
    if (key !== undefined) found.push(key);
  }
  return found;
}

describe('AnswerKeys', () => {
  it('takes a key that is pressed alone, and none before the question has been there for a second', () => {
    assert.deepEqual(pressedOf([2_000, 'y']), ['y']);
    assert.deepEqual(pressedOf([2_000, 'N']), ['n']);
    assert.deepEqual(pressedOf([10, 'y']), []);
    assert.deepEqual(pressedOf([990, 'y']), []);
    assert.deepEqual(pressedOf([990, 'y'], [2_000, 'b']), ['b']);
  });

  it('takes nothing of what is typed on, in pieces or at once, nor of keys that come fast', () => {
    assert.deepEqual(pressedOf([2_000, 'yes\r']), []);
    assert.deepEqual(pressedOf([2_000, 'y'], [2_150, 'e'], [2_300, 's'], [2_450, '\r']), []);
    assert.deepEqual(pressedOf([2_000, 'y'], [2_290, 'y']), []);
    assert.deepEqual(pressedOf([900, 'x'], [1_150, 'y'], [1_400, 'y']), []);
  });

  it('takes nothing of a terminal’s answer, however it is cut', () => {
    assert.deepEqual(pressedOf([2_000, '\u001b]ly\u001b\\']), []);
    assert.deepEqual(pressedOf([2_000, '\u001b]l'], [2_200, 'y'], [2_400, '\u001b\\']), []);
    assert.deepEqual(pressedOf([2_000, '\u001b'], [2_010, ']'], [2_020, 'l'], [2_030, 'y']), []);
  });

  it('leaves by Enter, Escape, Ctrl-C and their like', () => {
    for (const key of ['\u0003', '\r', '\n', '\u001b', '\u0004', '\u001a', '\u001d', 'q'])
      assert.deepEqual(pressedOf([2_000, key]), ['later']);
    assert.deepEqual(pressedOf([10, '\r']), []);
  });

  it('takes nothing that was typed while nobody looked, however long that was', () => {
    const keys = new AnswerKeys(0);
    assert.equal(keys.pressed(60_000), undefined);
    keys.hear(Buffer.from('y'));
    for (let nowMs = 60_050; nowMs < 65_000; nowMs += 50) assert.equal(keys.pressed(nowMs), undefined);
    keys.hear(Buffer.from('y'));
    assert.equal(keys.pressed(90_000), undefined);
    keys.hear(Buffer.from('e'));
    for (let nowMs = 90_050; nowMs < 95_000; nowMs += 50) assert.equal(keys.pressed(nowMs), undefined);
  });
});
