/**
 * What a chat's agent keeps for that chat alone, and what others try to get of it: an agent in another chat of the same group, one of another
 * group, and an isolated run in the same chat. Each attempt is made in the chat's own run as well, where it has to succeed.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Schedule } from '@squash/contract/schedules';
import { isSingleId } from '../support/data-session.ts';
import { GroupScene } from '../support/group-scene.ts';
import { waitFor } from '../support/wait.ts';

const kept = 'kept-for-this-chat';
const transcript = '.claude/projects/transcript.jsonl';

interface Attempt {
  readonly name: string;
  readonly script: string;
  /** Not even the chat's own run has it by this way. */
  readonly never?: true;
}

const attempts: readonly Attempt[] = [
  { name: 'reads it where its own is', script: `cat ~/${transcript}` },
  {
    name: 'looks for it everywhere',
    script: `find / -path /proc -prune -o -type f -name transcript.jsonl -exec cat {} +`,
  },
  { name: 'follows a link to it in the shared folder', script: 'cat link' },
  { name: 'climbs by a link in the shared folder', script: `cat up/session/${transcript}` },
  {
    name: 'goes through the root of a process',
    script: `for root in /proc/[0-9]*/root /proc/self/root; do cat $root/workspace/session/${transcript}; done`,
  },
  {
    name: 'opens what a descriptor leads to',
    script: `for each in /proc/[0-9]*/fd/* /proc/[0-9]*/cwd; do timeout 1 cat $each/../session/${transcript}; done`,
  },
  {
    name: 'reads the disk that it lies on',
    script: 'for disk in /dev/loop* /dev/sd* /dev/vd*; do head -c 40m $disk | grep -a kept-for; done',
    never: true,
  },
  {
    name: 'mounts it',
    script: `mkdir -p /tmp/m; mount --bind /workspace/session /tmp/m; unshare -rm sh -c 'mount --bind /workspace/session /tmp/m && cat /tmp/m/${transcript}'`,
    never: true,
  },
  {
    name: 'says that it is in the chat',
    script: `export SQUASH_CHAT=victim HOME=/workspace/session; for path in /sessions '/self?chat=victim' /chats/victim '/volumes' /v1/volumes /v1/chats /v1/chats/victim/session; do ask GET "$path"; done`,
    never: true,
  },
  {
    name: 'has it thrown away',
    script: `ask POST /v1/chats/victim/reset '{}'; ask POST /chats/victim/reset '{}'; ask DELETE /v1/chats/victim; act '{"id":"'$RANDOM$RANDOM'","action":"chat.reset","chat":"victim"}'; act '{"id":"'$RANDOM$RANDOM'","action":"chat.remove","chat":"victim"}'`,
    never: true,
  },
  {
    name: 'makes a chat of the same name, to have it',
    script: `act '{"id":"'$RANDOM$RANDOM'","action":"chat.create","chat":"victim","group":"'$SQUASH_GROUP'","trigger":null}'`,
    never: true,
  },
];

/** Last in a chat's run: what the next one has to find unchanged. */
const spoil = `mkdir -p ~/.claude/projects; echo spoilt > ~/${transcript}`;

const script = `case "$(cat)" in
*plant*) mkdir -p ~/.claude/projects; echo ${kept} > ~/${transcript}; echo in-the-folder > note
  ln -s ~/${transcript} link; ln -s /workspace up; ln ~/${transcript} hard 2>/dev/null || echo no hard link;;
*look*) cat ~/${transcript};;
*) ${attempts.map(({ script: tried }, at) => `echo "== ${at}"; (${tried}) 2>/dev/null`).join('\n')}
  echo "== end"; cat /workspace/group/note 2>/dev/null; ${spoil};;
esac`;

describe('what is kept for one chat', () => {
  let scene: GroupScene;
  let isSingle = false;
  /** By who tried. */
  const found = new Map<string, readonly string[]>();
  let left = '';

  before(async () => {
    scene = await GroupScene.start();
    isSingle = await isSingleId(scene.daemon);
    if (isSingle) return;
    await scene.group('victim', 'untrusted', { script });
    await scene.chat({ name: 'beside', group: 'victim' });
    await scene.group('stranger', 'untrusted', { script });
    await scene.group('mighty', 'main', { script });
    assert.match(await said('victim', 'victim', 'plant'), /no hard link/);
    for (const [who, group, chat] of [
      ['another chat of the group', 'victim', 'beside'],
      ['another group', 'stranger', 'stranger'],
      ['a group that is trusted with others', 'mighty', 'mighty'],
    ] as const)
      found.set(who, parts(await said(group, chat, 'attempt')));
    found.set('an isolated run in the chat', parts(await isolated()));
    left = await said('victim', 'victim', 'look');
    found.set('the chat itself', parts(await said('victim', 'victim', 'attempt')));
  });
  after(() => scene[Symbol.asyncDispose]());

  async function said(group: string, chat: string, text: string): Promise<string> {
    const heard = (await scene.heard(chat)).length;
    const { run } = await scene.say(chat, text);
    await scene.ended(group, run);
    return (await scene.heard(chat)).slice(heard);
  }

  async function isolated(): Promise<string> {
    const heard = (await scene.heard('victim')).length;
    const at = new Date(Date.now() + 300).toISOString();
    const body = { chat: 'victim', name: 'once', text: 'attempt', at, context: 'isolated' };
    await scene.call('POST', '/v1/schedules', body);
    const run = await waitFor('its run', async () => {
      const { last_run } = await scene.call<Schedule>('GET', '/v1/schedules/victim/once');
      return last_run ?? undefined;
    });
    await scene.ended('victim', run);
    return (await scene.heard('victim')).slice(heard);
  }

  function parts(text: string): readonly string[] {
    const cut = text.split(/^== (?:\d+|end)$/m).slice(1);
    assert.equal(cut.length, attempts.length + 1, text);
    return cut;
  }

  for (const [at, { name, never }] of attempts.entries()) {
    it(`is held where somebody else ${name}`, (t) => {
      if (isSingle) return t.skip('single-id mode: there is no uid 1000');
      for (const [who, texts] of found) {
        if (who !== 'the chat itself') assert.ok(!texts[at]?.includes(kept), `${who}: ${texts[at]}`);
      }
    });
    if (never) continue;
    it(`is not held where the chat’s own run ${name}`, (t) => {
      if (isSingle) return t.skip('single-id mode: there is no uid 1000');
      assert.ok(found.get('the chat itself')?.[at]?.includes(kept));
    });
  }

  it('is as it was after all of them, where each has written to its own', (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    assert.equal(left, `${kept}\n`);
  });

  it('lies beside the folder, which all chats of the group have', (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    assert.equal(found.get('another chat of the group')?.at(-1)?.trim(), 'in-the-folder');
    assert.equal(found.get('another group')?.at(-1)?.trim(), '');
  });

  it('is spoilt by the chat’s own next run, which may', async (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    assert.equal(await said('victim', 'victim', 'look'), 'spoilt\n');
  });

  it('is no more when the chat is made anew under its name', async (t) => {
    if (isSingle) return t.skip('single-id mode: there is no uid 1000');
    await scene.call('DELETE', '/v1/chats/victim');
    await scene.chat({ name: 'victim', group: 'stranger' });
    assert.equal(await said('stranger', 'victim', 'look'), '');
  });
});
