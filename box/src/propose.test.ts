/** What is proposed of what a box was refused, and what never is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PathLevel } from '@squash/contract/path-levels';
import { propose } from './propose.ts';
import type { Refusal } from './refused-paths.ts';

const home = '/home/u';
const rules = new Map<string, PathLevel>([
  [home, 'hidden'],
  ['/tmp', 'hidden'],
  ['/usr', 'ro'],
  ['/home/u/project', 'cow'],
  ['/home/u/shut', 'hidden'],
  ['/home/u/no', 'deny'],
]);

const refused = (place: string, of: Partial<Refusal> = {}): Refusal => ({
  asked: place,
  place,
  intent: 'read',
  kind: 'file',
  level: 'hidden',
  needs: 'ro',
  ...of,
});
const written = { intent: 'write', needs: 'cow' } as const;
const proposed = (...refusals: readonly Refusal[]) => propose(refusals, { rules, home });

test('a file is proposed by itself, the more open of two wishes for it', () => {
  const { fs, leftOut } = proposed(
    refused('/home/u/a'),
    refused('/home/u/b', written),
    refused('/home/u/b'),
    refused('/srv/data/x'),
  );
  assert.deepEqual(fs, { '/srv/data/x': 'ro', '~/a': 'ro', '~/b': 'cow' });
  assert.deepEqual(leftOut, []);
});

test('four of a directory stand for it, and never for the home or above it', () => {
  const four = (directory: string): readonly Refusal[] =>
    [1, 2, 3, 4].map((n) => refused(`${directory}/${n}`));
  assert.deepEqual(proposed(...four('/home/u/d')).fs, { '~/d': 'ro' });
  assert.deepEqual(proposed(...four('/home/u/d'), refused('/home/u/d/5', written)).fs, { '~/d': 'cow' });
  const nested = ['a', 'b', 'c', 'd'].flatMap((name) => four(`/home/u/d/${name}`));
  assert.deepEqual(Object.keys(proposed(...nested).fs), ['~/d/a', '~/d/b', '~/d/c', '~/d/d']);
  assert.deepEqual(Object.keys(proposed(...four('/home/u')).fs), ['~/1', '~/2', '~/3', '~/4']);
  assert.deepEqual(Object.keys(proposed(...four('/srv')).fs), ['/srv/1', '/srv/2', '/srv/3', '/srv/4']);
  assert.deepEqual(Object.keys(proposed(...four('/tmp')).fs), ['/tmp/1', '/tmp/2', '/tmp/3', '/tmp/4']);
});

test('what lies below another proposal is left to it where that gives as much', () => {
  const directory = { kind: 'directory' } as const;
  assert.deepEqual(proposed(refused('/home/u/d', directory), refused('/home/u/d/x')).fs, { '~/d': 'ro' });
  assert.deepEqual(proposed(refused('/home/u/d', directory), refused('/home/u/d/x', written)).fs, {
    '~/d': 'ro',
    '~/d/x': 'cow',
  });
});

test('homes, keys, what a rule closes and names that are patterns are never proposed', () => {
  const { fs, leftOut } = proposed(
    refused('/', { kind: 'directory' }),
    refused('/home', { kind: 'directory' }),
    refused('/home/u', { ...written, kind: 'directory' }),
    refused('/tmp', { ...written, kind: 'directory' }),
    refused('/home/u/.ssh/id'),
    refused('/home/u/.config/gh', { kind: 'directory' }),
    refused('/home/other/x'),
    refused('/etc/shadow'),
    refused('/run/user/1/bus', { kind: 'other' }),
    refused('/home/u/socket', { kind: 'other' }),
    refused('/home/u/shut/x'),
    refused('/home/u/no', { level: 'deny' }),
    refused('/home/u/*'),
    refused('/home/u/a?b'),
    refused('/home/u/a\u001b[2Jb'),
    refused(`/home/u/${'x'.repeat(600)}`),
    refused('/home/u/looked', { kind: 'directory', intent: 'look' }),
  );
  assert.deepEqual(fs, {});
  assert.equal(leftOut.length, 17);
});

test('a directory that was only looked for is not told of where its files are proposed', () => {
  const looked = refused('/home/u/d', { kind: 'directory', intent: 'look' });
  const many = [1, 2, 3, 4].map((n) => refused(`/home/u/d/${n}`));
  assert.deepEqual(proposed(looked, ...many), { fs: { '~/d': 'ro' }, leftOut: [] });
});

test('so many rules and no more', () => {
  const { fs, leftOut } = proposed(...Array.from({ length: 300 }, (_, n) => refused(`/srv/${n}/a/${n}`)));
  assert.equal(Object.keys(fs).length, 100);
  assert.equal(leftOut.length, 200);
});
