/** No box writes the policy of who started it. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { withoutOwnPlaces } from './own-places.ts';

test('what a box may write hides the user’s policy in it, and where that can’t be there is no box', () => {
  const config = realpathSync(mkdtempSync(join(tmpdir(), 'squash-own-')));
  const [user, state] = [join(config, 'squash'), join(config, 'state/squash')];
  try {
    assert.deepEqual(withoutOwnPlaces({ '/usr': 'ro' }, { user, state }), { '/usr': 'ro' });
    assert.ok(!existsSync(user));
    const rules = withoutOwnPlaces({ [config]: 'rw', [user]: 'rw' }, { user, state });
    assert.deepEqual(rules, { [config]: 'rw', [user]: 'hidden', [state]: 'hidden' });
    assert.ok(existsSync(user) && existsSync(state));
    writeFileSync(join(config, 'file'), '');
    const nowhere = { user: join(config, 'file/squash'), state };
    assert.throws(() => withoutOwnPlaces({ [config]: 'rw' }, nowhere), { code: 'box_refused' });
  } finally {
    rmSync(config, { recursive: true });
  }
});
