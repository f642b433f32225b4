/** A group and a chat are changed while they are there: what was said, the folder and the sessions stay, and what begins later is as they say then. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { NotFound, Squash } from '@squash/sdk';
import type { Chat, Group, OutMessage } from '@squash/contract/groups';
import { squash, startCli } from '../support/cli.ts';
import { agentTests, GroupScene } from '../support/group-scene.ts';
import { waitFor } from '../support/wait.ts';

let scene: GroupScene;
before(async () => {
  scene = await GroupScene.start();
});
after(() => scene[Symbol.asyncDispose]());

const withAgents = agentTests(() => scene);

async function ok(...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await squash(scene.daemon, words);
  assert.equal(code, 0, `${words.join(' ')}: ${stderr}`);
  return stdout.toString();
}

test('a group and a chat are changed by the command line, word by word, and back', async () => {
  await ok(
    'group',
    'create',
    'family',
    '--tier',
    'trusted',
    '--env',
    'A=1',
    '--memory',
    '128',
    '--cpu',
    '0.5',
    '--backend',
    'vm',
    '--',
    'cat',
  );
  await ok('chat', 'create', 'family-chat', 'family', '--trigger', '@x', '--sender', 'eve', '--drop');
  const before = await scene.call<Group>('GET', '/v1/groups/family');
  const changed = JSON.parse(
    await ok(
      'group',
      'set',
      'family',
      '--json',
      '--reach',
      'api.example.com',
      '--timeout',
      '60',
      '--',
      'sh',
      '-c',
      ':',
    ),
  ) as Group;
  const now = { ...before, reach: ['api.example.com'], timeout_s: 60, command: ['sh', '-c', ':'] };
  assert.deepEqual(changed, now);
  assert.deepEqual([now.cpu, now.backend], [0.5, 'vm']);
  assert.match(await ok('group', 'show', 'family'), /^command: +sh -c :$/m);
  const words = ['reach', 'timeout', 'env', 'memory', 'cpu', 'backend'].flatMap((word) => ['--clear', word]);
  assert.equal(await ok('group', 'set', 'family', ...words), 'family\n');
  const cleared = { ...now, reach: [], timeout_s: null, env: {}, memory_mb: null, cpu: null, backend: null };
  assert.deepEqual(await scene.call('GET', '/v1/groups/family'), cleared);
  assert.equal(
    await ok('chat', 'set', 'family-chat', '--sender', 'bob', '--clear', 'trigger'),
    'family-chat\n',
  );
  const { items } = await scene.call<{ items: Chat[] }>('GET', '/v1/chats');
  const { trigger, senders, others } = items[0] ?? assert.fail();
  assert.deepEqual({ trigger, senders, others }, { trigger: null, senders: ['bob'], others: 'drop' });
  for (const [wrong, why] of [
    [['group', 'set', 'family'], /nothing is to be changed/],
    [['group', 'set', 'family', '--clear', 'name'], /--clear takes profile, layers/],
    [['group', 'set', 'family', '--clear', 'reach', '--reach', 'a.example'], /exclude each other/],
    [['group', 'set', 'nobody', '--timeout', '60'], /group_not_found/],
    [['group', 'set', 'family', '--tier', 'nobody'], /tier_not_found/],
    [
      ['group', 'set', 'family', '--tier', 'untrusted', '--reach', 'a.example'],
      /Cannot change.*tier_forbids/,
    ],
    [['group', 'set', 'family', '--mount', '/etc:/workspace/etc'], /host_directory_refused/],
    [['chat', 'set', 'nobody', '--drop'], /chat_not_found/],
  ] as const) {
    const { code, stderr } = await squash(scene.daemon, [...wrong]);
    assert.notEqual(code, 0, wrong.join(' '));
    assert.match(stderr, why);
  }
  assert.deepEqual(await scene.call('GET', '/v1/groups/family'), cleared);
  await ok('group', 'rm', 'family');
});

withAgents(
  'the next run is as the group is by then, in the same folder and session, and one that has begun goes on',
  async () => {
    await scene.group('change', 'trusted', {
      script:
        'echo first >>log; echo first >>$SQUASH_SESSION/log; echo begun; until test -e go; do sleep 0.1; done; cat log',
    });
    const { run } = await scene.say('change', 'go');
    await waitFor('it to run', async () => (await scene.heard('change')) === 'begun\n');
    const shell =
      'echo second >>log; echo second >>$SQUASH_SESSION/log; cat log $SQUASH_SESSION/log; echo $WHO';
    await scene.call('PATCH', '/v1/groups/change', { command: ['sh', '-c', shell], env: { WHO: 'changed' } });
    const sandbox = (await scene.run('change', run))?.sandbox;
    await scene.call('POST', `/v1/sandboxes/${sandbox}/exec`, { shell: 'touch /workspace/group/go' });
    await scene.ended('change', run);
    assert.equal(await scene.heard('change'), 'begun\nfirst\n');
    assert.equal(await scene.answer('change'), 'first\nsecond\nfirst\nsecond\nchanged\n');
  },
);

withAgents('what an agent asks for is judged by the tier that its group has by then', async () => {
  await scene.group('other', 'trusted', { script: 'cat' });
  const ask = `act '{"id":"'$SQUASH_RUN'","action":"message.send","chat":"other","text":"hi"}' | grep -o '"state":"[a-z]*"'`;
  await scene.group('asks', 'trusted', { script: ask });
  assert.equal(await scene.answer('asks'), '"state":"held"\n');
  const [held] = await scene.actions('?state=held');
  await scene.call('PATCH', '/v1/groups/asks', { tier: 'untrusted' });
  await scene.call('POST', `/v1/group-actions/${held?.number}`, { decision: 'allow' });
  const [judged] = await scene.actions();
  assert.equal(judged?.state, 'denied', 'a person allows nothing that the tier does not');
  assert.equal(await scene.heard('other'), '');
});

withAgents('messages that come later are judged by the chat as it is by then', async () => {
  await scene.group('rules', 'untrusted', { script: 'grep -o ">.*<"' });
  await scene.call('PATCH', '/v1/chats/rules', { trigger: '@agent', senders: ['alice'], others: 'drop' });
  assert.equal((await scene.say('rules', 'no trigger')).run, null);
  assert.equal((await scene.say('rules', '@agent hello', { sender: 'mallory' })).message, null);
  const { run } = await scene.say('rules', '@agent hello');
  await scene.ended('rules', run);
  assert.equal(await scene.heard('rules'), '>no trigger<\n>@agent hello<\n');
});

withAgents(
  'what is said comes to whoever follows the chat as it is said, once, also where the daemon dies meanwhile, and ends with the chat',
  async () => {
    const script = 'echo one; until test -e go; do sleep 0.1; done; echo two; echo three';
    await scene.group('told', 'trusted', { script });
    const words = ['chat', 'read', 'told', '--follow', '--after', '0', '--json'];
    const cli = startCli(scene.daemon, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    const printed: string[] = [];
    createInterface({ input: cli.stdout ?? assert.fail() }).on('line', (line) =>
      printed.push((JSON.parse(line) as OutMessage).text),
    );
    const closed = once(cli, 'close');
    const followed: string[] = [];
    const { groups } = new Squash({ url: scene.daemon.url });
    const following = (async () => {
      for await (const { text } of groups.chats.follow('told', { after: 0 })) followed.push(text);
    })();
    following.catch(() => undefined);
    try {
      const { run } = await scene.say('told', 'go');
      // Who follows where nobody is there is told at once: both are to be there before the daemon goes.
      await waitFor('the first line', () => followed.length === 1 && printed.length === 1);
      const sandbox = (await scene.run('told', run))?.sandbox;
      assert.ok(sandbox, 'the run goes on');
      await scene.daemon.kill();
      await scene.daemon.start();
      await scene.call('POST', `/v1/sandboxes/${sandbox}/exec`, { shell: 'touch /workspace/group/go' });
      await waitFor('the rest', () => followed.join('') === 'one\ntwo\nthree\n');
      await scene.ended('told', run);
      await waitFor('the same from the command line', () => printed.join('') === followed.join(''));
      await ok('chat', 'rm', 'told');
      await assert.rejects(following, NotFound);
      assert.equal((await closed)[0], 1);
      assert.equal(printed.join(''), followed.join(''));
    } finally {
      cli.kill();
      await closed;
    }
  },
);
