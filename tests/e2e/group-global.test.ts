/** The memory that all groups of a daemon share: those write it whose tier says so, while others read it. */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import type { Tier } from '@squash/contract/tiers';
import type { VolumeInfo } from '@squash/contract/volume';
import { agentTests, GroupScene } from '../support/group-scene.ts';
import { waitFor } from '../support/wait.ts';

let scene: GroupScene;
before(async () => {
  scene = await GroupScene.start();
});
after(() => scene[Symbol.asyncDispose]());

const withAgents = agentTests(() => scene);

async function memory(): Promise<VolumeInfo | undefined> {
  const { items } = await scene.call<{ items: VolumeInfo[] }>('GET', '/v1/volumes');
  return items.find(({ name }) => name === 'groups-global');
}

withAgents('the first runs of several groups begin at once, and have one memory', async () => {
  const names = ['early-1', 'early-2', 'early-3'];
  for (const name of names)
    await scene.group(name, 'main', { script: `echo ${name} > $SQUASH_GLOBAL/${name}; pwd` });
  assert.equal(await memory(), undefined, 'it is made when it is needed');
  const said = await Promise.all(names.map((name) => scene.answer(name)));
  assert.deepEqual(said, ['/workspace/group\n', '/workspace/group\n', '/workspace/group\n']);
  for (const name of names) {
    const [run] = await scene.runs(name);
    assert.equal(run?.attempt, 1, run?.reason ?? '');
  }
  await scene.group('late', 'untrusted', { script: 'cd $SQUASH_GLOBAL; pwd; ls; cat *' });
  assert.equal(await scene.answer('late'), `/workspace/global\n${names.join('\n')}\n${names.join('\n')}\n`);
});

withAgents('what one writes others read while it goes on, and another writes beside it', async () => {
  const until = (file: string): string =>
    `n=0; until [ -e /workspace/global/${file} ] || [ $n -gt 300 ]; do n=$((n + 1)); sleep 0.1; done`;
  await scene.group('writer', 'main', {
    script: `echo one > /workspace/global/one; ${until('two')}; cat /workspace/global/two`,
  });
  await scene.group('beside', 'main', {
    script: `${until('one')}; echo two > /workspace/global/two; ${until('three')}`,
  });
  await scene.group('reader', 'untrusted', {
    script: `${until('two')}; cat /workspace/global/one /workspace/global/two`,
  });
  const said = ['writer', 'reader'].map((name) => scene.answer(name));
  const { run } = await scene.say('beside', 'go');
  assert.deepEqual(await Promise.all(said), ['two\n', 'one\ntwo\n']);
  const attached = await waitFor('the one that goes on', async () => {
    const all = (await memory())?.attached_to ?? [];
    return all.length === 1 ? all : undefined;
  });
  assert.deepEqual(
    attached.map(({ mode }) => mode),
    ['rw'],
  );
  assert.equal(await scene.refused('DELETE', '/v1/volumes/groups-global'), 'volume_in_use');
  await scene.group('third', 'main', { script: 'touch /workspace/global/three' });
  await scene.answer('third');
  await scene.ended('beside', run);
});

withAgents('it outlives groups and daemons, and the operator throws it away as a volume', async () => {
  await scene.group('passing', 'main', { script: 'echo kept > /workspace/global/kept' });
  await scene.answer('passing');
  await scene.call('DELETE', '/v1/groups/passing');
  await scene.daemon.kill();
  await scene.daemon.start();
  await scene.group('after', 'untrusted', { script: 'cat /workspace/global/kept || echo nothing' });
  assert.equal(await scene.answer('after'), 'kept\n');
  const before = await memory();
  assert.ok(before?.size_mb === 256 || before?.warnings[0]?.code === 'volume_size');
  await scene.call('DELETE', '/v1/volumes/groups-global');
  assert.equal(await scene.answer('after'), 'nothing\n');
  assert.notEqual((await memory())?.id, before.id);
});

withAgents('a tier without it has no such place, and a tier that says nothing of it reads', async () => {
  const { items } = await scene.call<{ items: Tier[] }>('GET', '/v1/tiers');
  assert.deepEqual(
    items.map(({ name, global_memory: mode }) => [name, mode]),
    [
      ['main', 'rw'],
      ['trusted', 'ro'],
      ['untrusted', 'ro'],
    ],
  );
  const { name: _name, built_in: _is, global_memory: _global, ...silent } = items[2] ?? assert.fail();
  assert.equal((await scene.call<Tier>('PUT', '/v1/tiers/silent', silent)).global_memory, 'ro');
  await scene.call('PUT', '/v1/tiers/without', { ...silent, global_memory: 'none' });
  await scene.group('bare', 'without', { script: 'ls /workspace; echo "${SQUASH_GLOBAL:-none}"' });
  assert.equal(await scene.answer('bare'), 'group\nsession\nnone\n');
});
