/** The language of `.gitignore`, and which links stay in a tree. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { excludesOf } from './exclusions.ts';
import { staysInside } from './tree.ts';

test('patterns mean what they mean to git', () => {
  const lines = [
    '# a comment',
    '*.log',
    '!keep.log',
    'build/',
    '/top',
    'a/**/z',
    'docs/*.md',
    String.raw`\#odd`,
    '[ab]?.c',
    'ü',
    '.git/**',
  ];
  const excludes = excludesOf(lines);
  const bytes = (path: string): string => Buffer.from(path).toString('latin1');
  for (const path of [
    'x.log',
    'd/x.log',
    'top',
    'a/z',
    'a/b/c/z',
    'docs/x.md',
    '#odd',
    'ax.c',
    'd/ü',
    '.git/config',
  ])
    assert.ok(excludes(bytes(path), false), path);
  for (const path of [
    'keep.log',
    'd/top',
    'build',
    'z',
    'docs/d/x.md',
    'x.logs',
    'cx.c',
    'a/zz',
    '.git',
    '# a comment',
  ])
    assert.ok(!excludes(bytes(path), false), path);
  assert.ok(excludes('build', true) && excludes('d/build', true));
  assert.ok(excludes('build/deep/keep.log', false), 'what is below an excluded directory stays excluded');
  assert.ok(!excludesOf([])('x', false));
});

test('a link that leads out of its tree is told from one that does not', () => {
  for (const [path, target] of [
    ['l', 'x'],
    ['d/l', '../x'],
    ['d/e/l', '../../x/y'],
    ['d/l', './..'],
  ] as const)
    assert.ok(staysInside(path, target), `${path} -> ${target}`);
  for (const [path, target] of [
    ['l', '/etc/passwd'],
    ['l', '..'],
    ['d/l', '../../x'],
    // Where "up" is a link to the top its ".." is outside.
    ['l', 'a/b/up/../x'],
    ['d/l', '../a/..'],
    ['l', ''],
  ] as const)
    assert.ok(!staysInside(path, target), `${path} -> ${target}`);
});
