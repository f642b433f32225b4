/** Which errors of the system mean a full disk. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDiskFull, isErrno } from './errno.ts';

test('a disk is full by its own end and by a quota, and by no other error', () => {
  const withCode = (code: string): Error => Object.assign(new Error(code), { code });
  assert.deepEqual(['ENOSPC', 'EDQUOT', 'EIO', 'disk_full'].map(withCode).map(isDiskFull), [
    true,
    true,
    false,
    false,
  ]);
  assert.equal(isDiskFull(new Error('no code')), false);
  assert.equal(isDiskFull({ code: 'ENOSPC' }), false);
  assert.equal(isErrno(withCode('ENOENT'), 'EEXIST', 'ENOENT'), true);
});
