/** What a file without an end does to who reads it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPrivateFile } from './private-file.ts';

test('a private file that says it has no bytes, and has no end, is refused at its bound', () => {
  assert.throws(
    () => readPrivateFile('/proc/self/pagemap', 1_023, (problem) => new Error(problem)),
    /is larger than 1023 bytes/,
  );
});
