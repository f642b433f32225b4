/** Schedules against a real daemon: times come, runs begin, daemons die, tiers refuse. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Action } from '@squash/contract/actions';
import type { Schedule, ScheduleRun } from '@squash/contract/schedules';
import type { Tier } from '@squash/contract/tiers';
import { squash } from '../support/cli.ts';
import { agentTests, GroupScene } from '../support/group-scene.ts';
import { waitFor } from '../support/wait.ts';

let scene: GroupScene;
before(async () => {
  scene = await GroupScene.start();
});
after(() => scene[Symbol.asyncDispose]());

const withAgents = agentTests(() => scene);

/** A schedule is named by its chat and its name. */
const path = (schedule: string, more = ''): string => `/v1/schedules/${schedule}${more}`;

async function make(chat: string, name: string, more: object): Promise<Schedule> {
  return await scene.call('POST', '/v1/schedules', { chat, name, text: `it is time for ${name}`, ...more });
}

async function look(schedule: string): Promise<Schedule> {
  return await scene.call('GET', path(schedule));
}

async function lines(schedule: string): Promise<readonly ScheduleRun[]> {
  return (await scene.call<{ items: ScheduleRun[] }>('GET', path(schedule, '/runs'))).items;
}

/** Oldest first. */
async function until(schedule: string, verdict: ScheduleRun['verdict'], count: number) {
  return await waitFor(`${count} lines of ${schedule}`, async () => {
    const all = await lines(schedule);
    return all.filter((each) => each.verdict === verdict).length < count ? undefined : all.toReversed();
  });
}

async function pause(schedule: string, paused: boolean): Promise<Schedule> {
  return await scene.call('PATCH', path(schedule), { paused });
}

/** What an agent asked for, by its id. */
async function asked(group: string, id: string): Promise<Action> {
  return (await scene.actions(`?group=${group}`)).find((each) => each.id === id) ?? assert.fail(id);
}

async function tier(name: string, change: object): Promise<void> {
  const { items } = await scene.call<{ items: Tier[] }>('GET', '/v1/tiers');
  const {
    name: _name,
    built_in: _,
    ...body
  } = items.find((each) => each.name === 'untrusted') ?? assert.fail();
  await scene.call('PUT', `/v1/tiers/${name}`, { ...body, ...change });
}

withAgents(
  'a schedule of the group’s reads what waits in its chat, an isolated one its prompt alone',
  async () => {
    await scene.group('news', 'untrusted', { script: 'cat' });
    await scene.chat({ name: 'talk', group: 'news', trigger: '@bot' });
    await scene.say('talk', 'just so', { sender: 'bob' });
    await make('talk', 'alone', { at: new Date(Date.now() + 300).toISOString(), context: 'isolated' });
    const [alone] = await until('talk/alone', 'started', 1);
    await scene.ended('news', alone?.run ?? null);
    const heard = await scene.heard('talk');
    assert.match(
      heard,
      /^<messages chat="talk">\n<message sender="schedule:alone" [^>]*>it is time for alone</,
    );
    assert.doesNotMatch(heard, /just so/);
    const { state, next_at, last_run } = await look('talk/alone');
    assert.deepEqual([state, next_at, last_run], ['done', null, alone?.run]);
    await make('talk', 'along', { at: new Date(Date.now() + 300).toISOString() });
    const [along] = await until('talk/along', 'started', 1);
    await scene.ended('news', along?.run ?? null);
    assert.match(
      (await scene.heard('talk')).slice(heard.length),
      /bob[^>]*>just so<.*\n.*it is time for along</,
    );
    assert.equal(await scene.refused('PATCH', path('talk/along'), { paused: true }), 'schedule_never');
    assert.equal(
      await scene.refused('POST', '/v1/chats/talk/messages', { sender: 'schedule:along', text: 'x' }),
      'invalid_request',
    );
  },
);

withAgents(
  'an interval goes by the clock until it is paused, and from then on when it is resumed',
  async () => {
    await scene.group('tick', 'untrusted', { script: 'echo tick' });
    const { created_at } = await make('tick', 'second', { every_s: 1 });
    await until('tick/second', 'started', 2);
    assert.equal((await pause('tick/second', true)).state, 'paused');
    const earlier = await lines('tick/second');
    for (const { due_at, at } of earlier) {
      assert.equal((Date.parse(due_at) - Date.parse(created_at)) % 1_000, 0, 'it does not drift');
      assert.ok(at >= due_at);
    }
    await new Promise((done) => setTimeout(done, 1_100));
    assert.deepEqual((await lines('tick/second')).length, earlier.length);
    const { next_at } = await pause('tick/second', false);
    assert.ok(next_at !== null && Date.parse(next_at) > Date.now() - 1_000);
    await until('tick/second', 'started', earlier.filter(({ verdict }) => verdict === 'started').length + 1);
    await scene.call('DELETE', path('tick/second'));
    assert.equal(await scene.refused('GET', path('tick/second')), 'schedule_not_found');
    // One that takes longer than its interval is not begun beside itself.
    await scene.group('slow', 'untrusted', { script: 'sleep 1.5' });
    await make('slow', 'second', { every_s: 1 });
    const beside = await until('slow/second', 'skipped', 1);
    const at = beside.findIndex(({ verdict }) => verdict === 'skipped');
    const last = beside.slice(0, at).findLast(({ verdict }) => verdict === 'started');
    assert.equal(beside[at]?.reason, `run ${last?.run} has not ended`);
    await scene.call('DELETE', path('slow/second'));
  },
);

withAgents(
  'a daemon that is killed at any moment loses no time of a schedule and runs none twice',
  async () => {
    await scene.group('sure', 'untrusted', { script: 'echo ran' });
    const { created_at } = await make('sure', 'second', { every_s: 1 });
    const begun = Date.parse(created_at);
    for (let kill = 0; kill < 3; kill += 1) {
      // Around the moment at which a time comes.
      const next = Date.parse((await look('sure/second')).next_at ?? '');
      await new Promise((done) => setTimeout(done, Math.max(0, next - Date.now() - 2 + kill * 3)));
      await scene.daemon.kill();
      await scene.daemon.start();
    }
    await pause('sure/second', true);
    const all = (await lines('sure/second')).toReversed();
    for (const [index, { at, due_at }] of all.entries()) {
      const following = all[index + 1];
      if (following === undefined) continue;
      const expected = begun + (Math.floor((Date.parse(at) - begun) / 1_000) + 1) * 1_000;
      assert.equal(Date.parse(following.due_at), expected, `behind ${due_at}, at ${at}`);
    }
    const runs = await waitFor('all runs', async () => {
      const found = await scene.runs('sure');
      return found.every(({ finished_at, sandbox }) => finished_at !== null && sandbox === null)
        ? found
        : undefined;
    });
    const started = all.filter(({ verdict }) => verdict === 'started');
    assert.ok(started.length > 0);
    assert.deepEqual(new Set(started.map(({ run }) => run)), new Set(runs.map(({ run }) => run)));
    assert.equal(started.length, runs.length);
    assert.equal(await scene.heard('sure'), 'ran\n'.repeat(runs.length));
  },
);

withAgents('what passed while there was no daemon runs once, or not where the schedule says so', async () => {
  await scene.group('late', 'untrusted', { script: 'echo late' });
  await make('late', 'once', { every_s: 1 });
  await make('late', 'skipped', { every_s: 1, missed: 'skip' });
  await make('late', 'date', { at: new Date(Date.now() + 1_000).toISOString() });
  await scene.daemon.kill();
  await new Promise((done) => setTimeout(done, 2_200));
  await scene.daemon.start();
  const missed = async (name: string): Promise<ScheduleRun> =>
    await waitFor('what was missed', async () =>
      (await lines(`late/${name}`)).find(({ reason }) => reason?.startsWith('it was missed') === true),
    );
  const [once, skipped] = [await missed('once'), await missed('skipped')];
  const [date] = await until('late/date', 'started', 1);
  await scene.call('DELETE', path('late/once'));
  await scene.call('DELETE', path('late/skipped'));
  assert.deepEqual([once.verdict, skipped.verdict, date?.verdict], ['started', 'skipped', 'started']);
  assert.ok(Date.parse(once.at) - Date.parse(once.due_at) >= 1_000);
  assert.equal((await lines('late/date')).length, 1);
});

withAgents('what an agent schedules its tier allows, holds or denies, then and at each time', async () => {
  const schedule = (id: string, chat: string, more: string): string =>
    `act '{"id":"${id}","action":"schedule.create","chat":"${chat}","name":"${id}","text":"again",${more}}'`;
  await scene.group('other', 'untrusted', { script: 'cat' });
  await tier('quick', { schedule: { own: 'allow', others: 'hold' }, schedule_every_s_min: 2 });
  await scene.group('quick', 'quick', {
    script: `grep -q again && exit
    ${schedule('often', 'quick', '"every_s":1')}
    ${schedule('never', 'quick', '"cron":"0 0 30 2 *"')}; ${schedule('fine', 'quick', '"every_s":2')}
    ${schedule('there', 'other', '"every_s":2')}; ${schedule('gone', 'quick', '"every_s":3')}
    for what in pause resume remove; do
      act '{"id":"'$what'","action":"schedule.'$what'","chat":"quick","name":"gone"}'
    done; ask GET '/schedules?chat=quick'; ask GET '/schedules?chat=other'`,
  });
  const printed = (await scene.answer('quick')).trim().split('\n');
  const answers = printed.map((line) => JSON.parse(line) as Record<string, unknown>);
  const [often, never, fine, there] = answers;
  assert.deepEqual([often?.['state'], often?.['rule']], ['denied', 'quick: schedule_every_s_min = 2']);
  assert.equal(never?.['error'], 'schedule_never');
  assert.deepEqual([fine?.['state'], there?.['state']], ['done', 'held']);
  assert.deepEqual(
    answers.slice(4, 8).map(({ state }) => state),
    ['done', 'done', 'done', 'done'],
  );
  assert.deepEqual(
    ((answers[8]?.['items'] ?? []) as readonly Schedule[]).map(({ name, made_by }) => [name, made_by]),
    [['fine', 'quick']],
  );
  assert.equal(answers[9]?.['error'], 'forbidden');
  // Held: nothing comes before a person says so.
  assert.equal(await scene.refused('GET', path('other/there')), 'schedule_not_found');
  const { number } = await asked('quick', 'there');
  const { state } = await scene.call<Action>('POST', `/v1/group-actions/${number}`, { decision: 'allow' });
  assert.equal(state, 'done');
  const [line] = await until('other/there', 'started', 1);
  await scene.ended('other', line?.run ?? null);
  assert.match(await scene.heard('other'), /sender="group:quick" [^>]*>again</);
  // The tier becomes narrower: what was made stays, and does not run.
  await tier('quick', { schedule: { own: 'hold', others: 'hold' }, schedule_every_s_min: 2 });
  await until('quick/fine', 'refused', 1);
  assert.equal((await lines('quick/fine'))[0]?.reason, 'quick: schedule.own = hold');
  assert.notEqual((await lines('other/there'))[0]?.verdict, 'refused', 'a person has allowed it');
  await tier('quick', { schedule: { own: 'allow', others: 'allow' }, schedule_every_s_min: 60 });
  await until('other/there', 'refused', 1);
  assert.equal((await lines('other/there'))[0]?.reason, 'quick: schedule_every_s_min = 60');
  // With the group its schedules go, also those in chats of others.
  await waitFor(
    'the group to rest',
    async () => (await scene.daemon.request('DELETE', '/v1/groups/quick')).status === 204,
  );
  assert.equal(await scene.refused('GET', path('other/there')), 'schedule_not_found');
});

test('what is no schedule is refused with a reason', async () => {
  await scene.group('plain', 'untrusted', { script: 'cat' });
  const refused = async (more: object): Promise<string> =>
    await scene.refused('POST', '/v1/schedules', { chat: 'plain', name: 'x', text: 'x', ...more });
  for (const wrong of [
    {},
    { every_s: 5, cron: '* * * * *' },
    { every_s: 0 },
    { every_s: 5, time_zone: 'Europe/Berlin' },
    { cron: '* * * *' },
    { cron: '@daily' },
    { cron: '61 * * * *' },
    { cron: '* * * * *', time_zone: '+01:00' },
    { cron: '* * * * *', time_zone: 'Middle/Earth' },
    { at: 'tomorrow' },
  ])
    assert.equal(await refused(wrong), 'invalid_request', JSON.stringify(wrong));
  assert.equal(await refused({ cron: '0 0 31 feb,apr *' }), 'schedule_never');
  assert.equal(await refused({ at: '2020-01-01T00:00:00Z' }), 'schedule_never');
  assert.equal(await refused({ every_s: 5, chat: 'nobody' }), 'chat_not_found');
  await make('plain', 'x', { every_s: 86_400 });
  assert.equal(await refused({ every_s: 5 }), 'schedule_exists');
});

test('the command line makes, shows, pauses, resumes and removes schedules', async () => {
  await scene.group('shown', 'untrusted', { script: 'cat' });
  const ok = async (...words: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await squash(scene.daemon, words);
    assert.equal(code, 0, stderr);
    return stdout.toString();
  };
  const cron = ['--cron', '0 7 * * mon', '--zone', 'Asia/Tokyo', '--isolated', '--skip-missed'];
  assert.match(
    await ok('schedule', 'create', 'shown', 'daily', 'what is new?', ...cron),
    /^daily comes first at .*T22:00/,
  );
  await ok('schedule', 'create', 'shown', 'often', 'x', '--every', '3600');
  await ok('schedule', 'create', 'shown', 'never', 'x', '--at', '2090-01-01T00:00:00+01:00');
  assert.match(
    await ok('schedule', 'ls', '--group', 'shown'),
    /^shown +daily +active .* 0 7 \* \* mon Asia\/Tokyo .* what is new\?$/m,
  );
  assert.equal(await ok('schedule', 'pause', 'shown', 'daily'), 'daily\n');
  assert.match(await ok('schedule', 'ls', '--chat', 'shown'), /^shown +daily +paused /m);
  assert.match(await ok('schedule', 'resume', 'shown', 'daily'), /^daily comes next at /);
  assert.match(await ok('schedule', 'runs', 'shown', 'daily'), /^TIME +VERDICT/);
  const { context, missed } = JSON.parse(await ok('schedule', 'ls', '--json')).items.find(
    ({ name }: Schedule) => name === 'daily',
  ) as Schedule;
  assert.deepEqual([context, missed], ['isolated', 'skip']);
  assert.match(await ok('__complete', '--', 'schedule', 'pause', 'shown', ''), /^daily\tactive$/m);
  await ok('schedule', 'rm', 'shown', 'daily');
  const { code, stderr } = await squash(scene.daemon, ['schedule', 'runs', 'shown', 'daily']);
  assert.equal(code, 1);
  assert.match(stderr, /squash schedule ls/);
});
