/** Where a daemon's state lies, by what the machine and the environment say. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataDirectory } from './data-directory.ts';

const machine = { env: {}, uid: 1_000, home: '/home/dev', isWritableDirectory: () => false };
const placed = (changes: Partial<Parameters<typeof dataDirectory>[0]>): string => {
  const { path, source } = dataDirectory({ ...machine, ...changes });
  return `${path} (${source})`;
};

test('dataDirectory() is /data where that is there, else the place of root or of the user', () => {
  assert.equal(placed({ isWritableDirectory: (path) => path === '/data' }), '/data (default)');
  assert.equal(placed({ uid: 0 }), '/var/lib/squash (default)');
  assert.equal(placed({}), '/home/dev/.local/share/squash (default)');
  assert.equal(placed({ env: { XDG_DATA_HOME: '/state' } }), '/state/squash (default)');
  assert.equal(placed({ env: { XDG_DATA_HOME: 'state' } }), '/home/dev/.local/share/squash (default)');
});

test('dataDirectory() is what the environment names, the new variable before the old one, and empty is not set', () => {
  const isWritableDirectory = () => true;
  const env = { SQUASH_DATA: '/one', SQUASH_DATA_DIR: '/two' };
  assert.equal(placed({ env, isWritableDirectory }), '/one (SQUASH_DATA)');
  assert.equal(placed({ env: { ...env, SQUASH_DATA: '' }, uid: 0 }), '/two (SQUASH_DATA_DIR)');
  assert.equal(
    placed({ env: { SQUASH_DATA: '', SQUASH_DATA_DIR: '' }, uid: 0 }),
    '/var/lib/squash (default)',
  );
});
