/** Every reading that some server makes of a path is among those that a rule is held against. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { pathReadings } from './path-readings.ts';

test('an ordinary path has one reading, and the query is no part of it', () => {
  for (const path of ['/', '/v1/models', '/a.b/..c/...', '/@scope/name', '/a/']) {
    assert.deepEqual(pathReadings(path), [path]);
    assert.deepEqual(pathReadings(`${path}?q=/../x`), [path]);
  }
  assert.deepEqual(pathReadings('*'), ['*']);
});

test('hidden ways up are found', () => {
  const hidden = [
    '/ok/../no',
    '/ok/%2e%2E/no',
    '/ok/.%2e/no',
    '/ok%2f..%2fno',
    '/ok/..%2fno',
    '/ok/..%252fno',
    '/ok/%252e%252e/no',
    '/ok/..\\no',
    '/ok/..%5cno',
    '/ok/..;x=1/no',
    '/ok//../../no',
    '//no',
    '/./no',
    '/%6eo',
    '/no%23/../ok',
    '/no%2523/../ok',
    '/no%3f/../ok',
    '/ok/..%2fno%3F/../../ok',
    '/no.',
    '/no...',
    '/no%2e',
    '/no%20',
    '/ok/..%20/no',
    '/no::$DATA',
    '/no%3a%3a%24data',
    '/\u00ef\u00bd\u008e\u00ef\u00bd\u008f',
    '/%ef%bd%8e%ef%bd%8f',
    '/ok%ef%bc%8f..%ef%bc%8fno',
  ];
  for (const path of hidden)
    assert.ok(pathReadings(path)?.includes('/no'), `${path}: ${pathReadings(path)?.join(' ')}`);
});

test('escaped slashes in names are read both ways', () => {
  const readings = pathReadings('/@scope%2fname');
  assert.ok(readings?.includes('/@scope%2fname') && readings.includes('/@scope/name'));
});

test('what no reading can be given for is not judged', () => {
  for (const path of [
    '',
    'x',
    '/a#/../b',
    '/a%00b',
    '/a%0ab',
    '/%2525252525',
    '/a\u007f',
    '/ok/%u002e%u002e/no',
    '/%%75002f',
    '/\u00c0\u00ae',
    '/ok/%25u002e',
    '/%c0%ae',
    '/%e0%80%ae',
    '/%f0%80%80%ae',
  ])
    assert.equal(pathReadings(path), undefined, path);
});

test('any path has few readings, each of them absolute', () => {
  const part = fc.constantFrom(
    '/',
    '..',
    '.',
    '%2f',
    '%2e',
    '%25',
    '%5c',
    '\\',
    ';',
    '%23',
    '%3f',
    'a',
    '%61',
    '%zz',
    ' ',
    '::$DATA',
    '%ef%bd%8e',
    '%',
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 30 }), (parts) => {
      const readings = pathReadings(`/${parts.join('')}`);
      for (const reading of readings ?? []) assert.ok(reading.startsWith('/'), reading);
      assert.ok((readings?.length ?? 0) <= 96);
    }),
    { numRuns: 2_000 },
  );
});
