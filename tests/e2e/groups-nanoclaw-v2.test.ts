/** An agent runner that was written for NanoClaw's version 2, in real sandboxes: its two databases, and what a tier makes of what it writes there. */
import assert from 'node:assert/strict';
import type fs from 'node:fs';
import { after, before } from 'node:test';
import type { Schedule } from '@squash/contract/schedules';
import { agentTests } from '../support/group-scene.ts';
import { does, RunnerScene } from '../support/nanoclaw/runner-scene.ts';
import { waitFor } from '../support/wait.ts';

let runners: RunnerScene;
before(async () => {
  runners = await RunnerScene.start('nanoclaw-v2', 'runner-v2.mjs');
});
after(() => runners[Symbol.asyncDispose]());

const withAgents = agentTests(() => runners.scene);

interface Row {
  readonly id: string;
  readonly kind: string;
  readonly seq: number;
  readonly status: string;
  readonly content: Readonly<Record<string, unknown>>;
}

interface Given {
  readonly given: readonly Row[];
  readonly config: object;
  readonly fs: typeof fs;
  readonly write: (row: { kind?: string; to?: string; content: object }) => string;
  readonly state: (key: string, value?: string) => string | undefined;
  readonly all: (sql: string) => readonly Readonly<Record<string, unknown>>[];
  readonly sleep: (ms: number) => Promise<void>;
}

withAgents('a runner of version 2 gets its messages as rows, and its answers are said once', async () => {
  const { scene } = runners;
  await runners.group('home', 'main');
  await runners.group('other', 'untrusted');
  const look = does<Given>(({ given, config, fs, all, state }) => {
    fs.writeFileSync('/workspace/agent/mine', '');
    const rows = given.map(({ kind, seq, content }) => ({
      kind,
      even: seq % 2 === 0,
      sender: content['sender'],
    }));
    const names = all('SELECT name FROM destinations ORDER BY name').map(({ name }) => name);
    const before = state('continuation:test') ?? null;
    state('continuation:test', `after ${given.length}`);
    return `<internal>x</internal>${JSON.stringify({ rows, names, before, config, uid: process.getuid?.() })}`;
  });
  const told = JSON.parse(await scene.answer('home', look)) as Readonly<Record<string, unknown>>;
  assert.deepEqual(told['rows'], [{ kind: 'chat', even: true, sender: 'alice' }]);
  assert.deepEqual([told['names'], told['before'], told['uid']], [['home', 'other'], null, 1_000]);
  const again = JSON.parse(await scene.answer('home', look)) as Readonly<Record<string, unknown>>;
  assert.equal(again['before'], 'after 1', 'what it keeps is there in the next run');
  assert.equal((await scene.said('home')).length, 2);
  assert.deepEqual(
    (await scene.runs('home')).map(({ state, reason }) => [state, reason]),
    [
      ['done', null],
      ['done', null],
    ],
  );
});

withAgents('what it writes to others, and its tasks, are judged; what is refused it is told', async () => {
  const { scene } = runners;
  await scene.group('family', 'untrusted', { script: 'cat' });
  await runners.group('root', 'main', { TZ: 'Europe/Berlin' });
  await runners.group('liar', 'untrusted');
  const act = does<Given>(async ({ write, all, sleep }) => {
    write({ to: 'family', content: { text: 'dinner' } });
    const task = {
      action: 'schedule_task',
      prompt: 'news',
      script: null,
      processAfter: '2099-01-01T00:00:00Z',
    };
    write({ kind: 'system', content: { ...task, taskId: 'daily', recurrence: '0 7 * * *' } });
    write({ kind: 'system', content: { ...task, taskId: 'gone', recurrence: null } });
    write({ kind: 'system', content: { action: 'create_agent', name: 'x' } });
    const listed = () => all("SELECT series_id FROM messages_in WHERE kind = 'task' AND status = 'pending'");
    for (let tries = 0; listed().length < 2 && tries < 300; tries += 1) await sleep(50);
    write({ kind: 'system', content: { action: 'cancel_task', taskId: 'gone' } });
    return `listed ${listed()
      .map(({ series_id: id }) => String(id))
      .join(' ')}`;
  });
  const heard = await scene.answer('root', act);
  assert.match(heard, /listed daily gone\n/);
  assert.match(heard, /heard \[squash\] A task failed: nothing is known of the type "create_agent"/);
  assert.equal(await scene.heard('family'), 'dinner');
  const { items } = await scene.call<{ items: Schedule[] }>('GET', '/v1/schedules?chat=root');
  assert.deepEqual(
    items.map(({ name, text, cron, time_zone }) => [name, text, cron, time_zone]),
    [['daily', 'news', '0 7 * * *', 'Europe/Berlin']],
  );
  const lie = does<Given>(({ write }) => {
    write({ to: 'family', content: { text: 'fire' } });
    return 'said';
  });
  assert.match(
    await scene.answer('liar', lie),
    /said\n[^]*heard \[squash\] The message to "family" is denied: untrusted: message\.others = deny/,
  );
  assert.equal(await scene.heard('family'), 'dinner');
});

withAgents(
  'a scheduled prompt is a task, a broken database is begun anew, an end of its own is told',
  async () => {
    const { scene } = runners;
    await runners.group('timed', 'untrusted');
    const kind = does<Given>(
      ({ given }) => `a ${given[0]?.kind ?? ''} for ${String(given[0]?.content['prompt']).slice(0, 3)}`,
    );
    await scene.call('POST', '/v1/schedules', {
      chat: 'timed',
      name: 's',
      text: kind,
      every_s: 1,
      missed: 'skip',
    });
    await waitFor('the task', async () => (await scene.heard('timed')).includes('a task for do:'), 30_000);
    await scene.call('DELETE', '/v1/schedules/timed/s');
    await runners.group('mess', 'untrusted');
    const spoil = does<Given>(async ({ fs, write, all, sleep }) => {
      const id = write({ content: { text: 'spoilt' } });
      while (all(`SELECT * FROM delivered WHERE message_out_id = '${id}'`).length === 0) await sleep(50);
      const text = 'no database, and longer than the head of one '.repeat(9);
      for (const name of ['inbound', 'outbound']) {
        fs.rmSync(`/workspace/session/.nanoclaw/${name}.db`);
        fs.writeFileSync(`/workspace/session/.nanoclaw/${name}.db`, text);
      }
      process.exit(7);
    });
    assert.equal(await scene.answer('mess', spoil), 'spoilt\n');
    const [run] = await scene.runs('mess');
    assert.deepEqual([run?.state, run?.reason?.startsWith('exit code 7: ')], ['failed', true]);
    assert.match(await scene.answer('mess', 'hello'), /^heard hello\n$/);
  },
);
