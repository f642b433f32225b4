/**
 * The memory that all groups share, and agents of tiers that only read it: each way to write it is tried by one of `untrusted` and of `trusted`,
 * and by one of a tier that has the row `rw` and is `untrusted` otherwise, where it has to succeed.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Tier } from '@squash/contract/tiers';
import { isSingleId } from '../support/data-session.ts';
import { GroupScene } from '../support/group-scene.ts';

interface Attempt {
  readonly name: string;
  /** In a directory of the memory that is the attempt's own, with a file `note` that says `kept`. */
  readonly script: string;
}

const attempts: readonly Attempt[] = [
  { name: 'makes a file', script: 'echo mine > mine' },
  { name: 'writes over a file', script: 'echo changed > note' },
  { name: 'adds to a file', script: 'echo more >> note' },
  { name: 'removes a file', script: 'rm -f note' },
  { name: 'renames a file', script: 'mv note moved' },
  { name: 'makes a directory', script: 'mkdir sub' },
  { name: 'makes a link', script: 'ln -s /etc/passwd link' },
  { name: 'makes a second name of a file', script: 'ln note second' },
  { name: 'makes a pipe', script: 'mkfifo pipe' },
  { name: 'changes a file’s mode', script: 'chmod 600 note' },
  { name: 'changes a file’s time', script: 'touch -d @1 note' },
  { name: 'cuts a file', script: 'truncate -s 0 note || dd if=/dev/null of=note' },
  { name: 'writes through the root of a process', script: 'echo mine > /proc/self/root$PWD/mine' },
  {
    name: 'writes by a descriptor that it reads with',
    script: 'exec 9< note; echo changed > /proc/self/fd/9; echo changed >&9',
  },
  {
    name: 'mounts it anew for writing',
    script:
      'mount -o remount,rw /workspace/global; unshare -rm sh -c "mount -o remount,rw,bind /workspace/global; echo mine > inside"; echo mine > outside',
  },
];

const places = attempts.map((_attempt, at) => `a${at}`);
const look = `cd /workspace/global; for each in ${places.join(' ')}; do echo "== $each"; ls -lA $each | sed 1d; find $each -type f -exec tail -n +1 {} +; done`;

describe('the memory of all groups', () => {
  let scene: GroupScene;
  let isSingle = false;
  const left = new Map<string, readonly string[]>();
  let first: readonly string[] = [];

  before(async () => {
    scene = await GroupScene.start();
    isSingle = await isSingleId(scene.daemon);
    if (isSingle) return;
    const { items } = await scene.call<{ items: Tier[] }>('GET', '/v1/tiers');
    const {
      name: _name,
      built_in: _is,
      ...rows
    } = items.find(({ name }) => name === 'untrusted') ?? assert.fail();
    await scene.call('PUT', '/v1/tiers/writes', { ...rows, global_memory: 'rw' });
    await scene.group('owner', 'main', {
      script: `case "$(cat)" in *plant*) cd /workspace/global; for each in ${places.join(' ')}; do mkdir $each; echo kept > $each/note; done;; esac; ${look}`,
    });
    const script = attempts
      .map(({ script: tried }, at) => `cd /workspace/global/a${at} && (${tried}) >/dev/null 2>&1`)
      .join('\n');
    first = parts(await said('owner', 'plant'));
    for (const tier of ['untrusted', 'trusted', 'writes']) {
      await scene.group(`of-${tier}`, tier, { script: `${script}\necho through` });
      assert.equal(await said(`of-${tier}`, 'go'), 'through\n');
      left.set(tier, parts(await said('owner', 'look')));
    }
  });
  after(() => scene[Symbol.asyncDispose]());

  async function said(group: string, text: string): Promise<string> {
    return await scene.answer(group, text);
  }

  function parts(text: string): readonly string[] {
    const cut = text.split(/^== a\d+$/m).slice(1);
    assert.equal(cut.length, attempts.length, text);
    return cut;
  }

  for (const [at, { name }] of attempts.entries()) {
    it(`is as it was where an agent that reads it ${name}`, (t) => {
      if (isSingle) return t.skip('single-id mode: there is no uid 1000');
      for (const tier of ['untrusted', 'trusted']) assert.equal(left.get(tier)?.[at], first[at], tier);
    });
    it(`is changed where one of a tier that writes it ${name}`, (t) => {
      if (isSingle) return t.skip('single-id mode: there is no uid 1000');
      assert.notEqual(left.get('writes')?.[at], first[at]);
    });
  }

  it('leads an agent that follows a link in it into its own sandbox', async (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    await scene.group('linker', 'main', {
      script:
        'echo of-the-linker > ~/own; ln -s ~/own /workspace/global/to-own; cat /workspace/global/to-own',
    });
    assert.equal(await said('linker', 'go'), 'of-the-linker\n');
    await scene.group('follower', 'untrusted', {
      script: 'cat /workspace/global/to-own || echo nothing there',
    });
    assert.equal(await said('follower', 'go'), 'nothing there\n');
  });

  it('is given by no client to several that write', async (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    const body = { name: 'mine', labels: { 'squash.shared': 'groups' } };
    assert.equal(await scene.refused('POST', '/v1/volumes', body), 'invalid_request');
    const mounts = [
      { volume: (await scene.call<{ id: string }>('POST', '/v1/volumes', { name: 'mine' })).id, path: '/m' },
    ];
    const { id } = await scene.call<{ id: string }>('POST', '/v1/sandboxes', { mounts });
    assert.equal(await scene.refused('POST', '/v1/sandboxes', { mounts }), 'volume_in_use');
    await scene.call('DELETE', `/v1/sandboxes/${id}`);
  });
});
