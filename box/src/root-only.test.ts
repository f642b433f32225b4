/** What of a directory is closed to others, where users may have made parts of it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { rootOnly } from './root-only.ts';

it('finds what is closed beside a path that no call takes, and a directory without an end', () => {
  const place = mkdtempSync(join(tmpdir(), 'squash-root-only-'));
  try {
    const [own, deep, wide] = ['own', 'deep', 'wide'].map((name) => join(place, name));
    assert.ok(own !== undefined && deep !== undefined && wide !== undefined);
    for (const path of [own, join(own, 'closed'), deep, wide]) mkdirSync(path);
    execFileSync('chmod', ['700', join(own, 'closed')]);
    for (const path of [join(own, 'closed/key'), join(own, 'key')]) writeFileSync(path, '', { mode: 0o600 });
    writeFileSync(join(own, 'read'), '', { mode: 0o644 });
    const step = 'd=$(printf %200s | tr " " x); for i in $(seq 40); do mkdir $d; cd -P $d; done';
    execFileSync('sh', ['-c', step], { cwd: deep });
    // More than are looked at, and one behind each of them.
    execFileSync(
      'sh',
      ['-c', 'seq 5100 | xargs mkdir; seq -f %.0f/key 5100 | xargs sh -c \'umask 077; touch "$@"\' -'],
      {
        cwd: wide,
      },
    );
    assert.deepEqual(rootOnly([place]).toSorted(), [join(own, 'closed'), join(own, 'key')]);
  } finally {
    execFileSync('rm', ['-rf', place]);
  }
});
