/** Which directories become the data directory. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeStateDirectories } from './serve.ts';

test('a place where no directory can be ends with what it is', () => {
  const parent = mkdtempSync('/tmp/squash-serve-');
  try {
    const file = join(parent, 'file');
    writeFileSync(file, '');
    for (const [path, why] of [
      ['/proc/squash/data', 'no directory can be made there'],
      ['/sys/squash', 'no directory can be made there|may not'],
      [join(file, 'data'), 'no directory'],
      ['/dev/null/data', 'no directory'],
    ] as const) {
      assert.throws(() => makeStateDirectories({ dataDir: path, runDir: join(path, 'run') }), {
        code: 'config_invalid',
        message: new RegExp(`^SQUASH_DATA is "${path}": .*${why}`),
      });
    }
  } finally {
    rmSync(parent, { recursive: true });
  }
});

test('a directory with another purpose is refused, a new one is closed to others', () => {
  const parent = mkdtempSync('/tmp/squash-serve-');
  try {
    const foreign = join(parent, 'etc');
    mkdirSync(foreign, { mode: 0o755 });
    writeFileSync(join(foreign, 'passwd'), '');
    const place = (dataDir: string) => ({ dataDir, runDir: join(dataDir, 'run') });
    assert.throws(() => makeStateDirectories(place(foreign)), { code: 'config_invalid' });
    assert.equal(statSync(foreign).mode & 0o777, 0o755);
    // What /etc, /usr/lib and a database of somebody else's have beside much that is not ours.
    const elsewhere = { dataDir: join(parent, 'd'), runDir: foreign };
    if (process.geteuid?.() === 0) {
      assert.throws(() => makeStateDirectories(elsewhere), { code: 'config_invalid', message: /passwd/ });
    }
    const makeFile = (path: string) => writeFileSync(path, '');
    for (const [make, name] of [
      [makeFile, 'modules'],
      [mkdirSync, 'modules'],
      [mkdirSync, 'sandboxes'],
      [mkdirSync, 'squash.db'],
    ] as const) {
      const path = join(foreign, name);
      make(path);
      assert.throws(() => makeStateDirectories(place(foreign)), { code: 'config_invalid' }, name);
      rmSync(path, { recursive: true });
    }
    const file = join(foreign, 'passwd');
    for (const wrong of [place(file), { ...place(join(parent, 'c')), runDir: join(file, 'run') }]) {
      assert.throws(() => makeStateDirectories(wrong), {
        code: 'config_invalid',
        message: /^SQUASH_(DATA|RUN) is /,
      });
    }
    const own = join(parent, 'a/b');
    makeStateDirectories(place(own));
    makeStateDirectories(place(own));
    assert.equal(statSync(own).mode & 0o777, 0o700);
    // Prepared before the first start.
    const prepared = join(parent, 'prepared');
    mkdirSync(prepared);
    for (const name of ['secrets.json', 'egress-ceiling.json', 'egress-presets.json'])
      writeFileSync(join(prepared, name), '{}');
    makeStateDirectories(place(prepared));
    writeFileSync(join(prepared, 'notes.txt'), '');
    // Layers of before Squash had a database say what it is.
    mkdirSync(join(prepared, 'modules'));
    writeFileSync(join(prepared, 'modules/base.squashfs'), '');
    makeStateDirectories(place(prepared));
    rmSync(join(prepared, 'modules'), { recursive: true });
    assert.throws(() => makeStateDirectories(place(prepared)), {
      code: 'config_invalid',
      message: /notes\.txt/,
    });
  } finally {
    rmSync(parent, { recursive: true });
  }
});
