/** Paths and what they are. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Routes, targetOf } from './routes.ts';

const routes = new Routes<string>();
for (const path of ['/v1/boxes', '/v1/boxes/{id}', '/v1/boxes/all/now', '/v1/boxes/{id}/{what}'])
  routes.add(path, path);

const found = (path: string): readonly string[] => [...routes.find(path)].map(({ value }) => value);

test('what names more of a path comes first, and is no dead end', () => {
  assert.deepEqual(found('/v1/boxes'), ['/v1/boxes']);
  assert.deepEqual(found('/v1/boxes/all/now'), ['/v1/boxes/all/now', '/v1/boxes/{id}/{what}']);
  assert.deepEqual(found('/v1/boxes/all'), ['/v1/boxes/{id}']);
  assert.deepEqual(found('/v1/boxes/all/then'), ['/v1/boxes/{id}/{what}']);
  for (const path of ['/', '', '/v1', '/v1/boxes/a/b/c', '/V1/boxes', 'x/v1/boxes', 'v1/boxes'])
    assert.deepEqual(found(path), [], path);
});

test('a place is one segment, decoded where it can be, and never empty', () => {
  const params = (path: string) => [...routes.find(path)].map((each) => each.params);
  assert.deepEqual(params('/v1/boxes/a%2Fb%20c/x+y'), [{ id: 'a/b c', what: 'x+y' }]);
  assert.deepEqual(params('/v1/boxes/%zz%41/__proto__'), [{ id: '%zz%41', what: '__proto__' }]);
  // Once: what is encoded in it was meant so.
  assert.deepEqual(params('/v1/boxes/%252e%252E'), [{ id: '%2e%2E' }]);
  assert.deepEqual(params('/v1/boxes/a/'), [{ id: 'a' }]);
  for (const path of ['/v1/boxes//', '/v1/boxes//b', '/v1/boxes/a//', '//v1/boxes'])
    assert.deepEqual(found(path), [], path);
  assert.deepEqual(found('/v1/%62oxes'), ['/v1/boxes']);
});

test('of a query the first of a name counts', () => {
  assert.deepEqual(targetOf({ url: '/a?b=1&b=2&c=x+y%21&d&__proto__=e?f' }), {
    path: '/a',
    query: Object.fromEntries([
      ['b', '1'],
      ['c', 'x y!'],
      ['d', ''],
      ['__proto__', 'e?f'],
    ]),
  });
  assert.deepEqual(targetOf({ url: '/a' }), { path: '/a', query: {} });
});
