/** What programs obey without being told, in a repository that a box writes itself: read-only where it is there, told where it is new. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BoxPlace } from '../support/box-place.ts';

describe('names that programs obey, in a repository that a box writes itself', () => {
  const kept = ['.envrc', '.vscode/settings.json', '.github/workflows/ci.yml', 'sub/CLAUDE.md'];
  let place: BoxPlace;
  const path = (name: string): string => join(place.repository, name);
  const put = (name: string): void => {
    mkdirSync(dirname(path(name)), { recursive: true });
    writeFileSync(path(name), 'mine\n');
  };
  const text = (name: string): string => readFileSync(path(name), 'utf8');

  before(() => {
    place = new BoxPlace('box-protected');
    for (const name of [...kept, '.github/other', 'sub/nested/plain']) put(name);
    execFileSync('git', ['init', '-q', path('sub/nested')]);
    symlinkSync('sub/CLAUDE.md', path('CLAUDE.md'));
  });

  after(async () => await place[Symbol.asyncDispose]());

  it('are not written, removed, or taken away with their directories', async () => {
    const nested = text('sub/nested/.git/config');
    const script = `for f in ${kept.join(' ')} sub/nested/.git/config; do echo x >> $f; rm -f $f; mv $f moved; done
      mv .vscode moved; mv .github moved; mv sub moved; rm -rf .github/workflows; mv sub/nested moved; echo x > .vscode/new
      for f in .github/other sub/nested/plain sub/new; do echo x >> $f || exit 3; done; echo x > sub/.envrc`;
    const end = await place.box('run', '--rm', '--repo', 'rw', '--', 'sh', '-c', script);
    assert.equal(end.code, 0, end.stderr);
    for (const name of kept) assert.equal(text(name), 'mine\n', name);
    assert.equal(text('sub/nested/.git/config'), nested);
    assert.ok(!existsSync(path('.vscode/new')));
    assert.deepEqual([text('sub/nested/plain'), text('.github/other')], ['mine\nx\n', 'mine\nx\n']);
    const made = [...end.stderr.matchAll(/the box made (\S+), which/g)];
    assert.deepEqual(
      made.map(([, name = '']) => relative(place.repository, name)),
      ['sub/.envrc'],
    );
  });

  it('are opened by name', async () => {
    const words = ['run', '--rm', '--repo', 'rw', '--rw', '.envrc', '--', 'sh', '-c', 'echo x > .envrc'];
    await place.printed(...words);
    assert.equal(text('.envrc'), 'x\n');
  });

  it('are refused where they are more than a box can keep', async () => {
    for (let at = 0; at < 70; at += 1) put(`many/${at}/AGENTS.md`);
    const end = await place.box('run', '--rm', '--repo', 'rw', '--', 'true');
    assert.equal(end.code, 126);
    assert.match(end.stderr, /more than 64 protected names.*--repo cow/);
    await place.printed('run', '--rm', '--', 'true');
  });
});
