/** What an agent keeps for one chat alone: it comes back in the chat's next run, is nobody else's, and goes with the chat. */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import type { Chat } from '@squash/contract/groups';
import type { Schedule } from '@squash/contract/schedules';
import type { VolumeInfo } from '@squash/contract/volume';
import { squash } from '../support/cli.ts';
import { agentTests, GroupScene } from '../support/group-scene.ts';
import { waitFor } from '../support/wait.ts';

let scene: GroupScene;
before(async () => {
  scene = await GroupScene.start();
});
after(() => scene[Symbol.asyncDispose]());

const withAgents = agentTests(() => scene);

async function chat(name: string): Promise<Chat> {
  const { items } = await scene.call<{ items: Chat[] }>('GET', '/v1/chats');
  return items.find((each) => each.name === name) ?? assert.fail(name);
}

async function volumes(): Promise<readonly VolumeInfo[]> {
  return (await scene.call<{ items: VolumeInfo[] }>('GET', '/v1/volumes')).items;
}

/** Says something in a chat of the group, and resolves with what its run printed. */
async function answer(group: string, name: string): Promise<string> {
  const before = (await scene.heard(name)).length;
  const { run } = await scene.say(name, 'go');
  await scene.ended(group, run);
  return (await scene.heard(name)).slice(before);
}

const counts = 'cd; pwd; echo $SQUASH_SESSION; echo x >> .agent; stat -c %u .agent; wc -l < .agent';
const counted = (times: number): string => `/workspace/session\n/workspace/session\n1000\n${times}\n`;

withAgents(
  'what an agent keeps in its home is there in the chat’s next run, after a new daemon too, and in no other chat’s',
  async () => {
    await scene.group('keeper', 'untrusted', { script: counts });
    await scene.chat({ name: 'second', group: 'keeper' });
    assert.equal((await chat('keeper')).session, null);
    assert.equal(await answer('keeper', 'keeper'), counted(1));
    const { session } = await chat('keeper');
    assert.match(session ?? '', /^session-[0-9a-f]{16}$/);
    await scene.daemon.kill();
    await scene.daemon.start();
    assert.equal(await answer('keeper', 'keeper'), counted(2));
    assert.equal(await answer('keeper', 'second'), counted(1));
    assert.equal((await chat('keeper')).session, session);
    assert.notEqual((await chat('second')).session, session);
  },
);

withAgents('an isolated run has a home of its own, which goes with it', async () => {
  await scene.group('apart', 'untrusted', { script: counts });
  assert.equal(await answer('apart', 'apart'), counted(1));
  const heard = (await scene.heard('apart')).length;
  const at = new Date(Date.now() + 300).toISOString();
  const body = { chat: 'apart', name: 'once', text: 'x', at, context: 'isolated' };
  await scene.call('POST', '/v1/schedules', body);
  const run = await waitFor('its run', async () => {
    const { last_run } = await scene.call<Schedule>('GET', '/v1/schedules/apart/once');
    return last_run ?? undefined;
  });
  await scene.ended('apart', run);
  assert.equal((await scene.heard('apart')).slice(heard), counted(1));
  assert.equal(await answer('apart', 'apart'), counted(2));
});

withAgents('a session takes no more than its group says, and its folder is as it was', async () => {
  await scene.group('full', 'untrusted', {
    session_mb: 16,
    script: 'head -c 32m /dev/zero > ~/big || echo full; echo kept > note; cat note',
  });
  const said = await answer('full', 'full');
  const { session } = await chat('full');
  const volume = (await volumes()).find(({ name }) => name === session);
  // Where nothing holds volumes to a size the volume says so.
  if (volume?.size_mb === null) return assert.equal(volume.warnings[0]?.code, 'volume_size');
  assert.equal(volume?.size_mb, 16);
  assert.equal(said, 'full\nkept\n');
});

withAgents(
  'a reset begins a new conversation, not while a run is on its way, and leaves folder and messages',
  async () => {
    const script = `case "$(cat)" in *wait*) until [ -e go ]; do sleep 0.1; done; rm go;; esac; ${counts}; cd /workspace/group; echo x >> all; wc -l < all`;
    await scene.group('anew', 'untrusted', { script });
    await scene.chat({ name: 'other', group: 'anew' });
    assert.equal(await answer('anew', 'anew'), `${counted(1)}1\n`);
    assert.equal(await answer('anew', 'other'), `${counted(1)}2\n`);
    const { session } = await chat('anew');
    const { run } = await scene.say('anew', 'wait');
    const running = await waitFor('the run', async () => {
      const found = await scene.run('anew', run);
      return found?.state === 'running' && found.sandbox !== null ? found.sandbox : undefined;
    });
    assert.equal(await scene.refused('POST', '/v1/chats/anew/reset'), 'group_in_use');
    assert.equal(await scene.refused('DELETE', '/v1/chats/anew'), 'group_in_use');
    // The chat beside it has no run.
    await scene.call('POST', '/v1/chats/other/reset');
    await waitFor('its command', async () => {
      const asked = { shell: 'touch /workspace/group/go && chmod 666 /workspace/group/go' };
      const { status } = await scene.daemon.request('POST', `/v1/sandboxes/${running}/exec`, asked);
      return status === 200 ? true : undefined;
    });
    await scene.ended('anew', run);
    assert.match(await scene.heard('anew'), /1000\n2\n3\n$/);
    const { code, stdout } = await squash(scene.daemon, ['chat', 'reset', 'anew']);
    assert.deepEqual([code, stdout.toString()], [0, 'anew\n']);
    assert.equal((await chat('anew')).session, null);
    assert.ok(!(await volumes()).some(({ name }) => name === session));
    assert.equal(await answer('anew', 'anew'), `${counted(1)}4\n`);
    assert.equal(await answer('anew', 'other'), `${counted(1)}5\n`);
    assert.equal(await scene.refused('POST', '/v1/chats/nobody/reset'), 'chat_not_found');
  },
);

withAgents(
  'a session that somebody looks into is neither reset nor removed, and goes afterwards',
  async () => {
    await scene.group('seen', 'untrusted', { script: counts });
    await scene.chat({ name: 'seen-too', group: 'seen' });
    await answer('seen', 'seen');
    await answer('seen', 'seen-too');
    const { session } = await chat('seen');
    const mounts = [{ volume: session, path: '/seen', mode: 'ro' }];
    const { id } = await scene.call<{ id: string }>('POST', '/v1/sandboxes', { mounts });
    for (const [method, path] of [
      ['POST', '/v1/chats/seen/reset'],
      ['DELETE', '/v1/chats/seen'],
      ['DELETE', '/v1/groups/seen'],
    ] as const)
      assert.equal(await scene.refused(method, path), 'volume_in_use');
    assert.equal((await chat('seen')).session, session);
    await scene.call('DELETE', `/v1/sandboxes/${id}`);
    await scene.call('DELETE', '/v1/chats/seen');
    assert.ok(!(await volumes()).some(({ name }) => name === session));
    const { session: other } = await chat('seen-too');
    assert.ok((await volumes()).some(({ name }) => name === other));
    await scene.call('DELETE', '/v1/groups/seen');
    assert.ok(!(await volumes()).some(({ name }) => name === other));
  },
);

withAgents(
  'a run whose folder another sandbox has waits for it, and nothing it was to read is lost',
  async () => {
    await scene.group('editor', 'untrusted', { script: 'cat; cat note' });
    await scene.answer('editor');
    const { volume } = await scene.call<{ volume: string }>('GET', '/v1/groups/editor');
    const mounts = [{ volume, path: '/group', mode: 'rw' }];
    const { id } = await scene.call<{ id: string }>('POST', '/v1/sandboxes', { mounts });
    const { run } = await scene.say('editor', 'what is in it?');
    const waits = await waitFor('the run to wait', async () => {
      const found = await scene.run('editor', run);
      return found?.state === 'queued' && found.reason !== null ? found : undefined;
    });
    assert.match(waits.reason ?? '', /volume "group-\d+" rw: sandbox "[^"]+" has it/);
    const later = await scene.say('editor', 'and who are you?');
    assert.notEqual(later.run, run, 'its prompt does not grow while it waits');
    const shell = 'echo edited >/group/note; sleep 4';
    await scene.call('POST', `/v1/sandboxes/${id}/exec`, { shell });
    await scene.call('DELETE', `/v1/sandboxes/${id}`);
    const { state, attempt } = await scene.ended('editor', run);
    assert.deepEqual([state, attempt], ['done', 1]);
    await scene.ended('editor', later.run);
    assert.match(
      await scene.heard('editor'),
      /what is in it\?[^]*\nedited\n<messages[^]*who are you\?[^]*\nedited\n$/,
    );
  },
);
