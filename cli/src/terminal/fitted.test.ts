/** Texts that have room on a terminal, and texts that somebody made too long. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { cut, fitted, rowsOf } from './fitted.ts';

it('fitted keeps a text that has room, and cuts each line of another, so that none of them is out of sight', () => {
  const size = { rows: 10, columns: 20 };
  assert.deepEqual(fitted('one\ntwo', size, 5), { text: 'one\ntwo', isWhole: true });
  for (const long of ['x'.repeat(4_000), '漢'.repeat(4_000), '\u{1f600}'.repeat(500)]) {
    for (const text of [`${long}\nasked by\n${long}`, `a\n${long}`]) {
      const { text: shown, isWhole } = fitted(text, size, 5);
      assert.equal(isWhole, false);
      assert.ok(rowsOf(shown, size.columns) <= 5, shown);
      assert.match(shown, /…/);
    }
  }
  assert.equal(fitted('a\nb\nc', { rows: 2, columns: 1 }, 5).isWhole, false);
  assert.equal(cut('漢漢漢', 5), '漢漢…');
});
