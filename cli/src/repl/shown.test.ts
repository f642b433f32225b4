/** Results of a kernel that a sandbox has put in the place of ours. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Shown } from './shown.ts';

test('a cell that shows without end is kept up to a bound, and what is not kept is not offered', () => {
  const offered = (count: number, html: string): number => {
    const shown = new Shown();
    const lines = Array.from(
      { length: count },
      () => shown.add({ type: 'result', seq: 1, cell: 1, is_main: true, html }, true)[0] ?? '',
    );
    assert.ok(lines.every((line) => line.startsWith('[text/html, ')));
    const saved = lines.filter((line) => line.includes('.save ')).length;
    assert.throws(() => shown.save(`/nonexistent/x.html ${saved + 1}`), { code: 'usage' });
    return saved;
  };
  assert.equal(offered(300, 'x'), 256);
  assert.equal(offered(40, 'x'.repeat(1_000_000)), 16);
});
