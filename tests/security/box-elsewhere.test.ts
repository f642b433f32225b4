/** `squash box apply` where the box's data lie on another file system than the repository: the last step is made in the user's directory. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BoxHost } from './box-host.ts';

const shared = '/dev/shm';
const isElsewhere = existsSync(shared) && statSync(shared).dev !== statSync(process.env['HOME'] ?? '/').dev;
const skip =
  process.getuid?.() === 0
    ? 'only an ordinary user has boxes'
    : isElsewhere
      ? false
      : 'no other file system to write to';

describe('a box on another file system than its repository', { skip }, () => {
  let host: BoxHost;
  before(() => {
    host = new BoxHost(shared);
  });
  after(() => host[Symbol.asyncDispose]());

  it('brings names whole, plants nothing, and leaves what the host protects', async () => {
    const path = (name: string): string => join(host.work, name);
    for (const name of ['d/changed', 'd/gone', 'd/kind', 'd/edited', 'closed/f', 'tree/in/f']) {
      mkdirSync(join(path(name), '..'), { recursive: true });
      writeFileSync(path(name), 'old\n');
    }
    const script =
      'cd d; echo box | tee changed edited new > /dev/null; rm gone kind; mkdir -p kind/in; ln -s new lnk; cd ..; rm -r tree; echo box > closed/g';
    await host.make('far', script);
    writeFileSync(path('d/edited'), 'of the user\n');
    chmodSync(path('closed'), 0o555);
    const outcomes = await host.apply('far');
    chmodSync(path('closed'), 0o755);
    assert.deepEqual(readdirSync(path('d')).toSorted(), ['changed', 'edited', 'kind', 'lnk', 'new']);
    assert.equal(readFileSync(path('d/changed'), 'utf8'), 'box\n');
    assert.equal(readFileSync(path('d/edited'), 'utf8'), 'of the user\n');
    assert.equal(readlinkSync(path('d/lnk')), 'new');
    assert.ok(statSync(path('d/kind/in')).isDirectory());
    assert.equal(outcomes.get('/d/edited'), 'conflict');
    // The user's own: he may write it, whatever its mode says.
    assert.equal(outcomes.get('/closed/g'), 'applied');
    // A tree can't go in one step from there.
    assert.equal(outcomes.get('/tree'), 'refused');
    assert.equal(readFileSync(path('tree/in/f'), 'utf8'), 'old\n');
    assert.ok(!readdirSync(host.work).some((name) => name.startsWith('.squash-')));
    await host.remove('far');
  });
});
