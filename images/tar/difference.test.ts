/** Archives of the real tar, taken apart and put together again, and read back by the real tar. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readFromTar, writeLayerTar } from './difference.ts';

class Trees implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), 'squash-tar-'));

  /** Packs a tree as mmdebstrap does: names with `./`, sorted, pax headers. */
  tar(name: string, fill: (root: string) => void): string {
    const root = join(this.#directory, name);
    mkdirSync(root);
    fill(root);
    const tar = join(this.#directory, `${name}.tar`);
    const owner = ['--owner=0', '--group=0', '--numeric-owner'];
    execFileSync('tar', ['-cf', tar, '--format=pax', '--sort=name', ...owner, '-C', root, '.']);
    return tar;
  }

  path(name: string): string {
    return join(this.#directory, name);
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

function list(tar: string): readonly string[] {
  const text = execFileSync('tar', ['--numeric-owner', '-tvf', tar], { encoding: 'utf8' });
  return text.trimEnd().split('\n');
}

function names(tar: string): readonly string[] {
  return execFileSync('tar', ['-tf', tar], { encoding: 'utf8' }).trimEnd().split('\n').sort();
}

const none = { files: {}, mtimeS: 0 };

test('writeLayerTar keeps of a tree what its base has not, with the directories above it', () => {
  using trees = new Trees();
  const base = trees.tar('base', (root) => {
    mkdirSync(join(root, 'usr/bin'), { recursive: true });
    writeFileSync(join(root, 'usr/bin/same'), 'same');
    writeFileSync(join(root, 'usr/bin/changed'), 'before');
  });
  const full = trees.tar('full', (root) => {
    mkdirSync(join(root, 'usr/bin'), { recursive: true });
    mkdirSync(join(root, 'usr/lib'));
    writeFileSync(join(root, 'usr/bin/same'), 'same');
    utimesSync(join(root, 'usr/bin/same'), 1, 1);
    writeFileSync(join(root, 'usr/bin/changed'), 'after');
    symlinkSync('changed', join(root, 'usr/bin/new-link'));
  });
  writeLayerTar({ tar: full, ...none }, trees.path('layer.tar'), base);
  assert.deepEqual(names(trees.path('layer.tar')), [
    './',
    './usr/',
    './usr/bin/',
    './usr/bin/changed',
    './usr/bin/new-link',
    './usr/lib/',
  ]);
  assert.equal(readFromTar(trees.path('layer.tar'), 'usr/bin/changed'), 'after');
});

test('writeLayerTar writes a whiteout for what the tree removed, once for a whole directory', () => {
  using trees = new Trees();
  const base = trees.tar('base', (root) => {
    mkdirSync(join(root, 'etc/gone'), { recursive: true });
    writeFileSync(join(root, 'etc/gone/file'), '');
    writeFileSync(join(root, 'etc/alone'), '');
    writeFileSync(join(root, 'etc/stays'), '');
  });
  const full = trees.tar('full', (root) => {
    mkdirSync(join(root, 'etc'));
    writeFileSync(join(root, 'etc/stays'), '');
  });
  writeLayerTar({ tar: full, ...none }, trees.path('layer.tar'), base);
  const whiteouts = list(trees.path('layer.tar')).filter((line) => line.startsWith('c'));
  assert.deepEqual(
    whiteouts.map((line) => line.replace(/ +/g, ' ').split(' ')).map((words) => [words[2], words[5]]),
    [
      ['0,0', 'etc/alone'],
      ['0,0', 'etc/gone'],
    ],
  );
  assert.ok(names(trees.path('layer.tar')).includes('./etc/'));
});

test('writeLayerTar brings the file that a new hard link names', () => {
  using trees = new Trees();
  const base = trees.tar('base', (root) => writeFileSync(join(root, 'a'), 'text'));
  const full = trees.tar('full', (root) => {
    writeFileSync(join(root, 'a'), 'text');
    linkSync(join(root, 'a'), join(root, 'b'));
  });
  writeLayerTar({ tar: full, ...none }, trees.path('layer.tar'), base);
  assert.deepEqual(names(trees.path('layer.tar')), ['./', './a', './b']);
});

test('writeLayerTar drops what tells of the machine and writes the files of the recipe', () => {
  using trees = new Trees();
  const full = trees.tar('full', (root) => {
    for (const directory of ['etc/apt/sources.list.d', 'dev', 'var/log/apt', 'tmp']) {
      mkdirSync(join(root, directory), { recursive: true });
    }
    writeFileSync(join(root, 'etc/hostname'), 'builder');
    writeFileSync(
      join(root, 'etc/apt/sources.list.d/mirror.list'),
      'deb https://user:password@mirror/ x main',
    );
    writeFileSync(join(root, 'dev/null'), '');
    writeFileSync(join(root, 'var/log/apt/term.log'), 'log');
    writeFileSync(join(root, 'tmp/left'), '');
  });
  const files = { 'etc/hostname': 'sandbox\n' };
  writeLayerTar({ tar: full, files, mtimeS: 0 }, trees.path('layer.tar'));
  const kept = names(trees.path('layer.tar'));
  for (const gone of [
    './etc/apt/sources.list.d/mirror.list',
    './dev/null',
    './var/log/apt/term.log',
    './tmp/left',
  ]) {
    assert.ok(!kept.includes(gone), gone);
  }
  assert.ok(kept.includes('./var/log/apt/') && kept.includes('./dev/'));
  assert.equal(readFromTar(trees.path('layer.tar'), 'etc/hostname'), 'sandbox\n');
});

test('writeLayerTar copies long names and extended headers unchanged', () => {
  using trees = new Trees();
  const long = `${'d'.repeat(120)}/${'f'.repeat(200)}`;
  const full = trees.tar('full', (root) => {
    mkdirSync(join(root, 'd'.repeat(120)));
    writeFileSync(join(root, long), 'x'.repeat(1000));
    writeFileSync(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0xfe])]), 'bytes');
    symlinkSync('t'.repeat(300), join(root, 'link'));
  });
  writeLayerTar({ tar: full, ...none }, trees.path('layer.tar'));
  assert.deepEqual(list(trees.path('layer.tar')), list(full));
});

test('writeLayerTar refuses what is no archive', () => {
  using trees = new Trees();
  writeFileSync(trees.path('text'), 'no archive '.repeat(100));
  assert.throws(() => writeLayerTar({ tar: trees.path('text'), ...none }, trees.path('layer.tar')), /tar:/);
});
