/** Sandboxes that are kept between the runs of a chat, where the tier says so: what the next run finds, what ends one, and that nothing is left. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { groupLimits } from '@squash/contract/group-limits';
import type { Run } from '@squash/contract/groups';
import type { Schedule } from '@squash/contract/schedules';
import type { VolumeInfo } from '@squash/contract/volume';
import { baseLayer } from '../support/base-layer.ts';
import { squash } from '../support/cli.ts';
import { agentTests, GroupScene } from '../support/group-scene.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const stack = new AsyncDisposableStack();
let host: string;
let scene: GroupScene;
before(async () => {
  host = mkdtempSync(join(tmpdir(), ownedPrefix('test')));
  stack.defer(() => rmSync(host, { recursive: true, force: true }));
  mkdirSync(join(host, 'books'));
  chmodSync(host, 0o755);
  const list = JSON.stringify([{ path: host }]);
  const modules = { '000-base-other': await baseLayer() };
  scene = stack.use(await GroupScene.start({ modules, files: { 'host-directories.json': list } }));
  await scene.tier('warm', { warm_s: 600 });
});
after(() => stack.disposeAsync());

const withAgents = agentTests(() => scene);

/** Tells what the last run left, which was which; by the message it fails, or takes too long. */
const leaves = `cat >/tmp/in; cat /tmp/left 2>/dev/null || echo nothing; echo $SQUASH_CHAT >/tmp/left
case "$(cat /tmp/in)" in *fail*) exit 7;; *hang*) sleep 60;; esac`;

interface Ended {
  readonly said: string;
  readonly run: Run;
}

/** Says something in a chat of the group, and resolves when its run is over. */
async function ask(group: string, chat = group, text = 'go'): Promise<Ended> {
  const { run } = await scene.say(chat, text);
  const ended = await scene.ended(group, run);
  const printed = (await scene.said(chat)).filter((each) => each.run === run);
  return { run: ended, said: printed.map((each) => each.text).join('') };
}

async function sandboxes(): Promise<readonly { readonly id: string; readonly state: string }[]> {
  return (await scene.call<{ items: { id: string; state: string }[] }>('GET', '/v1/sandboxes')).items;
}

const gone = (): Promise<unknown> =>
  waitFor('the end of all that was kept', async () => (await sandboxes()).length === 0);

withAgents(
  'the next run of a chat is in the sandbox of the last, with what that left; no other chat’s run, and no isolated one',
  async () => {
    await scene.group('pair', 'warm', { script: leaves });
    await scene.chat({ name: 'other', group: 'pair' });
    const first = await ask('pair');
    assert.deepEqual([first.said, first.run.warm], ['nothing\n', false]);
    assert.ok(Date.parse(first.run.warm_until ?? '') > Date.now());
    assert.deepEqual(
      (await sandboxes()).map(({ id, state }) => [id, state]),
      [[first.run.sandbox, 'stopped']],
    );
    const { items } = await scene.call<{ items: VolumeInfo[] }>('GET', '/v1/volumes');
    assert.deepEqual(
      items.flatMap((volume) => volume.attached_to),
      [],
    );
    // It has the folder that one sandbox has at a time.
    const beside = await ask('pair', 'other');
    assert.deepEqual([beside.said, beside.run.warm], ['nothing\n', false]);
    const second = await ask('pair');
    assert.deepEqual([second.said, second.run.warm], ['pair\n', true]);
    assert.equal(second.run.sandbox, first.run.sandbox);
    assert.deepEqual((await scene.run('pair', first.run.run))?.sandbox, null);
    const at = new Date(Date.now() + 300).toISOString();
    const alone = { chat: 'pair', name: 'once', text: 'x', at, context: 'isolated' };
    await scene.call('POST', '/v1/schedules', alone);
    const run = await waitFor('its run', async () => {
      const { last_run } = await scene.call<Schedule>('GET', '/v1/schedules/pair/once');
      return last_run ?? undefined;
    });
    const { warm, sandbox } = await scene.ended('pair', run);
    assert.deepEqual([warm, sandbox], [false, null]);
    assert.match(await scene.heard('pair'), /nothing\n$/);
    assert.deepEqual((await ask('pair')).said, 'pair\n');
    const { stdout } = await squash(scene.daemon, ['tier', 'ls']);
    assert.match(stdout.toString(), /^NAME.* WARM$/m);
    assert.match(stdout.toString(), /^warm .* 600s$/m);
    await scene.call('DELETE', '/v1/groups/pair');
    await gone();
  },
);

withAgents('a run has its own command, input, output and times in a sandbox that was kept', async () => {
  await scene.group('own', 'warm', {
    script:
      'echo $SQUASH_RUN; cat; ask GET /self; echo; echo err >&2; [ -e /tmp/slow ] && sleep 60; : >/tmp/slow',
    timeout_s: 4,
  });
  const first = await ask('own', 'own', 'one');
  const second = await ask('own', 'own', 'two');
  for (const [{ said, run }, text, other] of [
    [first, 'one', 'two'],
    [second, 'two', 'one'],
  ] as const) {
    assert.ok(said.startsWith(`${run.run}\n`), said);
    assert.ok(said.includes(`>${text}<`) && !said.includes(`>${other}<`), said);
    assert.ok(said.includes(`"run":${run.run},`), said);
  }
  assert.deepEqual([second.run.warm, second.run.state], [true, 'failed']);
  assert.match(second.run.reason ?? '', /^it took longer than "timeout_s"/);
  assert.ok(
    Date.parse(second.run.finished_at ?? '') - Date.parse(second.run.started_at ?? '') >= 4_000,
    'its time is its own',
  );
  assert.equal(second.run.sandbox, null, 'what failed is not kept');
});

withAgents('after a run that failed, and one that was ended, the next is in a fresh sandbox', async () => {
  await scene.group('bad', 'warm', { script: leaves, idle_timeout_s: 1 });
  for (const text of ['fail', 'hang']) {
    await ask('bad');
    const { run, said } = await ask('bad', 'bad', text);
    assert.deepEqual([run.state, run.warm, run.sandbox, said], ['failed', true, null, 'bad\n']);
    assert.deepEqual((await ask('bad')).said, 'nothing\n');
    await scene.call('POST', '/v1/chats/bad/reset');
  }
  await gone();
});

withAgents('what would be made otherwise now is not used again', async () => {
  await scene.tier('changing', { warm_s: 600 });
  await scene.group('altered', 'changing', { script: leaves });
  await ask('altered');
  assert.equal((await ask('altered')).said, 'altered\n');
  await scene.tier('changing', { warm_s: 600, global_memory: 'none' });
  const { run, said } = await ask('altered');
  assert.deepEqual([run.warm, said], [false, 'nothing\n']);
  const policy = { allow: ['example.com'] };
  await scene.call('PUT', `/v1/sandboxes/${run.sandbox}/policy`, policy);
  assert.equal((await ask('altered')).said, 'nothing\n', 'somebody has let it reach more');
  await scene.tier('changing', { warm_s: 0 });
  await gone();
  assert.equal((await ask('altered')).run.sandbox, null);
});

withAgents('a layer is the same by its content, not by its name', async () => {
  await scene.group('layered', 'warm', { script: leaves, layers: ['000-base-other'] });
  await ask('layered');
  assert.equal((await ask('layered')).said, 'layered\n');
  const path = join(scene.daemon.dataDir, 'modules', '000-base-other.squashfs');
  writeFileSync(`${path}.new`, Buffer.concat([readFileSync(path), Buffer.alloc(4_096)]));
  renameSync(`${path}.new`, path);
  assert.equal((await ask('layered')).said, 'nothing\n');
  await scene.call('DELETE', '/v1/groups/layered');
  await gone();
});

withAgents('a directory of the host is judged again', async () => {
  const path = join(host, 'books');
  const mounts = [{ host: path, path: '/workspace/extra/books' }];
  await scene.group('reader', 'warm', { script: leaves, mounts });
  await ask('reader');
  renameSync(path, `${path}-away`);
  symlinkSync('/etc', path);
  const { run } = await ask('reader');
  assert.deepEqual([run.state, run.warm, run.sandbox], ['failed', false, null]);
  assert.match(run.reason ?? '', /books.*of the host/);
  await gone();
});

withAgents('one that nobody needs in time is removed', async () => {
  await scene.tier('brief', { warm_s: 1 });
  await scene.group('brief', 'brief', { script: leaves });
  const { run } = await ask('brief');
  await gone();
  const now = await scene.run('brief', run.run);
  assert.deepEqual([now?.sandbox, now?.warm_until, now?.state], [null, null, 'done']);
  assert.equal((await ask('brief')).said, 'nothing\n');
  await gone();
});

withAgents('a reset, and the end of chat or group, ends it and is not held up by it', async () => {
  await scene.group('anew', 'warm', { script: leaves });
  await scene.chat({ name: 'anew-too', group: 'anew' });
  await ask('anew');
  await ask('anew', 'anew-too');
  await scene.call('POST', '/v1/chats/anew/reset');
  assert.equal((await sandboxes()).length, 1);
  assert.equal((await ask('anew')).said, 'nothing\n');
  assert.equal((await ask('anew', 'anew-too')).said, 'anew-too\n');
  await scene.call('DELETE', '/v1/chats/anew');
  assert.equal((await sandboxes()).length, 1);
  await scene.call('DELETE', '/v1/groups/anew');
  assert.deepEqual(await sandboxes(), []);
});

withAgents(
  'a daemon that is killed leaves none: the next removes what it kept, and folder and home stay',
  async () => {
    await scene.group('killed', 'warm', {
      script: `${leaves}; echo x >>times; echo x >>~/times; wc -l <times; wc -l <~/times`,
    });
    assert.equal((await ask('killed')).said, 'nothing\n1\n1\n');
    assert.equal((await ask('killed')).said, 'killed\n2\n2\n');
    await scene.daemon.kill();
    await scene.daemon.start();
    await gone();
    assert.equal((await ask('killed')).said, 'nothing\n3\n3\n');
    // Somebody removes it, or uses it: the next run has a fresh one.
    const [kept] = await sandboxes();
    await scene.call('DELETE', `/v1/sandboxes/${kept?.id}`);
    const { run, said } = await ask('killed');
    assert.deepEqual([run.warm, said], [false, 'nothing\n4\n4\n']);
    await scene.call('DELETE', '/v1/groups/killed');
    await gone();
  },
);

withAgents('so many are kept and no more, and the oldest make room for others', async () => {
  await scene.group('many', 'warm', { script: leaves });
  const chats = Array.from({ length: groupLimits.warmMax + 1 }, (_, at) => `many-${at}`);
  for (const name of chats) {
    await scene.chat({ name, group: 'many' });
    await ask('many', name);
  }
  assert.equal((await sandboxes()).length, groupLimits.warmMax);
  assert.equal((await ask('many', chats[0])).said, 'nothing\n');
  assert.equal((await ask('many', chats[2])).said, `${chats[2]}\n`);
  await scene.call('DELETE', '/v1/groups/many');
  await gone();
});

withAgents('one that is kept takes no run’s place among the daemon’s sandboxes', async () => {
  await using small = await GroupScene.start({ env: { SQUASH_MAX_SANDBOXES: '1' } });
  await small.tier('warm', { warm_s: 600 });
  for (const name of ['one', 'two']) await small.group(name, 'warm', { script: leaves });
  for (const name of ['one', 'two', 'two', 'one']) await small.answer(name);
  const runs = [...(await small.runs('one')), ...(await small.runs('two'))];
  assert.deepEqual(
    runs.map(({ state, attempt, warm }) => [state, attempt, warm]),
    [
      ['done', 1, false],
      ['done', 1, false],
      ['done', 1, true],
      ['done', 1, false],
    ],
  );
});
