/** What a tier lets its groups reach, use and have of the host, row by row. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allowed, forbidden } from './network.ts';
import { builtInTiers } from './tiers.ts';

const rows: readonly (readonly [limit: readonly string[], wanted: string, isAllowed: boolean])[] = [
  [[], 'example.com', false],
  [['*'], 'example.com', true],
  [['*'], '*', true],
  [['*'], '*.example.com:443', true],
  [['*:443'], 'example.com:443', true],
  [['*:443'], 'example.com', false],
  [['*:443'], 'example.com:80', false],
  [['example.com'], '*', false],
  [['example.com'], 'example.com', true],
  [['example.com'], 'EXAMPLE.com:443', true],
  [['example.com'], 'example.com.evil.org', false],
  [['example.com'], '*.example.com', false],
  [['*.example.com'], 'a.b.example.com', true],
  [['*.example.com'], '*.b.example.com', true],
  [['*.example.com'], 'example.com', false],
  [['*.example.com'], 'badexample.com', false],
  [['*.example.com'], '*.com', false],
  [['a.org', 'b.org:8000-9000'], 'b.org:8000-8010', true],
  [['a.org', 'b.org:8000-9000'], 'b.org:8000-9001', false],
  // What no wildcard opens in a policy is not opened by one here.
  [['*'], '10.0.0.0/8', false],
  [['*'], '192.0.2.1', false],
  [['10.0.0.0/8'], '10.0.0.0/8:22', true],
  [['10.0.0.0/8'], '10.1.0.0/16', false],
  [['*'], 'host.squash.internal:5432', false],
  [['*.squash.internal'], 'host.squash.internal:5432', false],
  [['*'], 'caller.squash.internal:22', false],
  [['host.squash.internal:5432'], 'host.squash.internal:5432', true],
  [['host.squash.internal:5432'], 'host.squash.internal:5433', false],
  [['*'], 'preset:npm', false],
  [['preset:npm'], 'preset:npm', true],
];

test('a group reaches what its tier names, and nothing that is wider in name, port or kind', () => {
  for (const [reach, wanted, isAllowed] of rows) {
    const rule = forbidden(
      { name: 't', reach, secrets: [], mounts: 'none' },
      { reach: [wanted], secrets: [], mounts: [] },
    );
    assert.equal(rule === undefined, isAllowed, `${reach.join(' ')} | ${wanted}: ${rule}`);
  }
});

test('a group uses the secrets that its tier names', () => {
  const of = (secrets: 'all' | readonly string[], wanted: readonly string[]) =>
    forbidden(
      { name: 't', reach: [], secrets: secrets === 'all' ? secrets : [...secrets], mounts: 'none' },
      { reach: [], secrets: wanted, mounts: [] },
    );
  assert.equal(of('all', ['ANY']), undefined);
  assert.equal(of(['ONE', 'TWO'], ['TWO']), undefined);
  assert.equal(of(['ONE'], ['ONE', 'TWO']), 't: secrets = ONE; the group wants "TWO"');
  assert.equal(of([], ['ONE']), 't: secrets = none; the group wants "ONE"');
});

test('a group has directories of the host as its tier says, for reading or for writing', () => {
  const of = (mounts: 'none' | 'ro' | 'rw', mode: 'ro' | 'rw') =>
    forbidden(
      { name: 't', reach: [], secrets: [], mounts },
      { reach: [], secrets: [], mounts: [{ host: '/srv', mode }] },
    );
  assert.deepEqual([of('rw', 'rw'), of('rw', 'ro'), of('ro', 'ro')], [undefined, undefined, undefined]);
  assert.equal(of('ro', 'rw'), 't: mounts = ro; the group wants "/srv" rw');
  assert.equal(of('none', 'ro'), 't: mounts = none; the group wants "/srv" ro');
  const least = builtInTiers.map(({ name, mounts }) => `${name} ${mounts}`);
  assert.deepEqual(least, ['main rw', 'trusted ro', 'untrusted ro']);
});

test('an untrusted group has its channel, and no other place to go', () => {
  const untrusted = builtInTiers.find(({ name }) => name === 'untrusted');
  assert.ok(untrusted !== undefined);
  assert.match(
    forbidden(untrusted, { reach: ['example.com'], secrets: [], mounts: [] }) ?? '',
    /^untrusted: reach = nothing/,
  );
  assert.deepEqual(allowed({ reach: [] }), ['caller.squash.internal:7774']);
});
