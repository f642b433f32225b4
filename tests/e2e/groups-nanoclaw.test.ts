/** An agent runner that was written for NanoClaw, in real sandboxes: its paths, its files, and what a tier makes of what it asks for. */
import assert from 'node:assert/strict';
import type fs from 'node:fs';
import { after, before } from 'node:test';
import type { Chat, Run } from '@squash/contract/groups';
import type { Schedule } from '@squash/contract/schedules';
import { squash } from '../support/cli.ts';
import { agentTests, type GroupScene } from '../support/group-scene.ts';
import { does, RunnerScene } from '../support/nanoclaw/runner-scene.ts';
import { waitFor } from '../support/wait.ts';

let runners: RunnerScene;
let scene: GroupScene;
before(async () => {
  runners = await RunnerScene.start('nanoclaw-v1', 'runner.mjs');
  scene = runners.scene;
});
after(() => runners[Symbol.asyncDispose]());

const withAgents = agentTests(() => scene);

const group = (name: string, tier: string, env: Readonly<Record<string, string>> = {}) =>
  runners.group(name, tier, env);

interface Given {
  readonly input: Readonly<Record<string, unknown>>;
  readonly prompt: string;
  readonly notes: readonly string[];
  readonly ipc: string;
  readonly fs: typeof fs;
  readonly drop: (directory: string, data: unknown) => void;
  readonly sleep: (ms: number) => Promise<void>;
  readonly write: (output: object) => void;
}

async function schedules(chat: string): Promise<readonly Schedule[]> {
  return (await scene.call<{ items: Schedule[] }>('GET', `/v1/schedules?chat=${chat}`)).items;
}

async function lastRun(name: string): Promise<Run> {
  const [run] = await scene.runs(name);
  return run ?? assert.fail();
}

withAgents('a runner gets its input, its paths and its lists, and what it answers is said', async () => {
  await group('home', 'main', { TZ: 'Europe/Berlin', ASSISTANT_NAME: 'Andy' });
  await group('other', 'untrusted');
  const look = does<Given>(({ input, prompt, fs, ipc }) => {
    const read = (name: string) => JSON.parse(fs.readFileSync(`${ipc}/${name}`, 'utf8')) as unknown;
    fs.writeFileSync('/workspace/group/mine', '');
    fs.writeFileSync('/workspace/global/CLAUDE.md', 'all of us');
    fs.writeFileSync('/home/node/.claude/transcript', 'x');
    const dirs = fs.readdirSync(ipc);
    const { prompt: _, ...rest } = input;
    const given = { rest, begins: prompt.slice(0, 90), zone: process.env['TZ'], cwd: process.cwd(), dirs };
    if (process.getuid?.() !== 1000) return 'no uid 1000';
    const kept = fs.existsSync(`${process.env['HOME']}/.claude/transcript`);
    const lists = { tasks: read('current_tasks.json'), chats: read('available_groups.json') };
    return `<internal>think</internal> ${JSON.stringify({ ...given, kept, lists })}`;
  });
  const told = JSON.parse(await scene.answer('home', look)) as {
    readonly rest: object;
    readonly begins: string;
    readonly kept: boolean;
    readonly dirs: readonly string[];
    readonly lists: { readonly tasks: unknown; readonly chats: { readonly groups: { jid: string }[] } };
  };
  const input = { groupFolder: 'home', chatJid: 'home', isMain: true, isScheduledTask: false };
  assert.deepEqual(told.rest, { ...input, assistantName: 'Andy' });
  assert.match(
    told.begins,
    /^<context timezone="Europe\/Berlin" \/>\n<messages chat="home">\n<message sender=/,
  );
  for (const name of ['messages', 'tasks', 'input']) assert.ok(told.dirs.includes(name));
  assert.ok(told.kept, '~/.claude is /home/node/.claude');
  assert.deepEqual(told.lists.tasks, []);
  assert.deepEqual(
    told.lists.chats.groups.map(({ jid }) => jid),
    ['home', 'other'],
  );
});

withAgents(
  'main’s runner speaks in other chats, makes and changes tasks, and registers a group',
  async () => {
    await group('root', 'main', { TZ: 'Europe/Berlin', RUNNER_ENDS_QUERIES: '1' });
    await scene.group('family', 'untrusted', { script: 'cat' });
    const act = does<Given>(async ({ drop, sleep, fs, ipc }) => {
      const task = { type: 'schedule_task', prompt: 'news', targetJid: 'family', context_mode: 'group' };
      drop('messages', { type: 'message', chatJid: 'family', text: 'dinner', sender: 'cook' });
      drop('tasks', { ...task, taskId: 'task-1', schedule_type: 'cron', schedule_value: '0  7 * * *' });
      drop('tasks', { ...task, taskId: 'task-2', schedule_type: 'interval', schedule_value: '3600000' });
      drop('tasks', {
        ...task,
        taskId: 'task-3',
        schedule_type: 'once',
        schedule_value: '2099-02-01T15:30:00',
      });
      for (const taskId of ['task-1', 'task-2', 'task-3'])
        for (
          let tries = 0;
          !fs.readFileSync(`${ipc}/current_tasks.json`, 'utf8').includes(taskId);
          tries += 1
        )
          if (tries > 300) return `no ${taskId}`;
          else await sleep(100);
      drop('tasks', { type: 'update_task', taskId: 'task-1', prompt: 'old news', isMain: 'true' });
      drop('tasks', { type: 'cancel_task', taskId: 'task-2' });
      drop('tasks', { type: 'pause_task', taskId: 'task-3' });
      const wish = { jid: 'club@g.us', name: 'Club', folder: 'whatsapp_club', trigger: '@Andy' };
      drop('tasks', { type: 'register_group', ...wish });
      const listed = JSON.parse(fs.readFileSync(`${ipc}/current_tasks.json`, 'utf8')) as object[];
      return JSON.stringify(listed.find((each) => 'id' in each && each.id === 'task-3'));
    });
    const listed = JSON.parse(await scene.answer('root', act)) as Record<string, unknown>;
    const { next_run: next, ...task } = listed;
    assert.equal(next, '2099-02-01T14:30:00.000Z');
    const timing = { schedule_type: 'once', schedule_value: '2099-02-01T15:30:00', status: 'active' };
    assert.deepEqual(task, { id: 'task-3', groupFolder: 'family', prompt: 'news', ...timing });
    assert.equal(await scene.heard('family'), 'dinner');
    assert.deepEqual(
      (await schedules('family')).map(({ name, text, cron, time_zone, state }) => [
        name,
        text,
        cron,
        time_zone,
        state,
      ]),
      [
        ['task-1', 'old news', '0 7 * * *', 'Europe/Berlin', 'active'],
        ['task-3', 'news', null, null, 'paused'],
      ],
    );
    const made = await scene.call<{ tier: string; profile: string }>('GET', '/v1/groups/whatsapp_club');
    assert.deepEqual([made.tier, made.profile], ['untrusted', 'nanoclaw-v1']);
    const { items } = await scene.call<{ items: Chat[] }>('GET', '/v1/chats');
    assert.equal(items.find(({ name }) => name === 'club@g.us')?.trigger, '@Andy');
    assert.equal((await lastRun('root')).reason, null);
  },
);

withAgents(
  'what is denied or held an agent is told in words, whatever the file says of its writer',
  async () => {
    await group('victim', 'untrusted');
    await group('liar', 'untrusted');
    await group('polite', 'trusted', { RUNNER_ENDS_QUERIES: '1' });
    const act = does<Given>(({ drop }) => {
      const lie = { groupFolder: 'home', isMain: true, createdBy: 'home' };
      drop('messages', { type: 'message', chatJid: 'victim', text: 'hello', ...lie });
      const task = { prompt: 'x', schedule_type: 'interval', schedule_value: '86400000' };
      drop('tasks', { type: 'schedule_task', ...task, targetJid: 'victim', taskId: 't', ...lie });
      drop('tasks', {
        type: 'register_group',
        jid: 'mine',
        name: 'm',
        folder: 'mine',
        trigger: '@m',
        ...lie,
      });
      return 'sent';
    });
    const heard = await scene.answer('liar', act);
    assert.match(heard, /^sent\n/);
    assert.match(heard, /The message to "victim" is denied: untrusted: message\.others = deny/);
    assert.match(heard, /The task "t" is denied: untrusted: schedule\.others = deny/);
    assert.match(heard, /To register "mine" is denied: untrusted: create = deny/);
    assert.equal((await scene.actions('?group=liar')).length, 3);
    assert.match(
      await scene.answer('polite', act),
      /The message to "victim" waits for a person: trusted: message/,
    );
    assert.equal(await scene.heard('victim'), '');
    assert.deepEqual(await schedules('victim'), []);
  },
);

withAgents('a conversation goes on in the next run, and one that is gone begins anew', async () => {
  await group('talk', 'untrusted');
  const which = does<Given>(({ input }) => JSON.stringify(input['sessionId'] ?? 'none'));
  assert.equal(await scene.answer('talk', which), '"none"\n');
  const { run } = await lastRun('talk');
  assert.equal(await scene.answer('talk', which), `"session-${run}"\n`);
  const gone = does<Given>(({ input }) => {
    if (input['sessionId'] === undefined) return 'anew';
    throw new Error(`No conversation found with session ID: ${JSON.stringify(input['sessionId'])}`);
  });
  assert.equal(await scene.answer('talk', gone), 'anew\n');
  const { state, attempt } = await lastRun('talk');
  assert.deepEqual([state, attempt], ['done', 2]);
});

withAgents(
  'a runner’s error is the reason of its run; a silent result and its log are said to nobody',
  async () => {
    await group('broken', 'untrusted');
    const failing = does<Given>(({ write }) => {
      write({ status: 'success', result: null, newSessionId: 's' });
      write({ status: 'success', result: '<internal>no word</internal>' });
      write({ status: 'success', result: 'one word' });
      console.log('beside the point');
      throw new Error('the model is overloaded');
    });
    assert.equal(await scene.answer('broken', failing), 'one word\n');
    const { state, reason } = await lastRun('broken');
    assert.equal(state, 'failed');
    assert.match(reason ?? '', /^exit code 1: [^]*the model is overloaded$/);
    await scene.group('missing', 'untrusted', {
      script: '',
      profile: 'nanoclaw-v1',
      command: ['/nowhere'],
      layers: ['000-base-test', '100-runner-test'],
    });
    await scene.answer('missing', 'x');
    assert.match((await lastRun('missing')).reason ?? '', /nowhere/);
  },
);

withAgents(
  'a scheduled prompt comes as a task, and what is dropped last is sent before the run ends',
  async () => {
    await group('timed', 'untrusted');
    const last = does<Given>(({ input, drop }) => {
      setTimeout(() => {
        drop('messages', {
          type: 'message',
          chatJid: 'timed',
          text: `task ${String(input['isScheduledTask'])}`,
        });
        process.exit();
      }, 300);
      return 'soon';
    });
    await scene.call('POST', '/v1/schedules', {
      chat: 'timed',
      name: 's',
      text: last,
      every_s: 1,
      missed: 'skip',
    });
    await waitFor('the task', async () => (await scene.heard('timed')).includes('task'), 30_000);
    await scene.call('DELETE', '/v1/schedules/timed/s');
    assert.match(await scene.heard('timed'), /soon\n[^]*task true/);
  },
);

withAgents('pipes, links, large files, directories and halves of files hold up no other', async () => {
  await group('mess', 'untrusted');
  const act = does<Given>(async ({ drop, fs, ipc, sleep }) => {
    const at = `${ipc}/messages/1-`;
    process.getBuiltinModule('node:child_process').execFileSync('mkfifo', [`${at}fifo.json`]);
    fs.symlinkSync('/etc/passwd', `${at}link.json`);
    fs.symlinkSync('/nowhere', `${at}dangling.json`);
    fs.writeFileSync(`${at}large.json`, '{"type":"message","chatJid":"mess","text":"');
    fs.truncateSync(`${at}large.json`, 100 << 20);
    fs.mkdirSync(`${at}directory.json/x`, { recursive: true });
    fs.writeFileSync(`${at}null.json`, 'null');
    fs.writeFileSync(`${at}half.json`, '{"type":"message","chatJid":"mess",');
    fs.writeFileSync(`${at}slow.json`, '{"type":"message","chatJid":"mess",');
    fs.writeFileSync(`${at}other.tmp`, '{');
    drop('messages', { type: 'message', chatJid: 'mess', text: 'good' });
    await sleep(800);
    fs.appendFileSync(`${at}slow.json`, '"text":"slow"}');
    fs.rmSync(`${ipc}/tasks`, { recursive: true });
    fs.symlinkSync('/etc', `${ipc}/tasks`);
    await sleep(2_500);
    return fs.readdirSync(`${ipc}/errors`).sort().join(' ');
  });
  const heard = await scene.answer('mess', act);
  const all = ['dangling', 'directory', 'fifo', 'half', 'large', 'link', 'null'];
  assert.equal(heard.split('\n')[0], all.map((name) => `messages-1-${name}.json`).join(' '));
  assert.match(heard, /The file "messages\/1-large\.json" failed: it has more than 131072 bytes/);
  const sent = (await scene.said('mess')).filter(({ action }) => action !== null);
  assert.deepEqual(sent.map(({ text }) => text).toSorted(), ['good', 'slow']);
  assert.equal((await lastRun('mess')).state, 'done');
});

withAgents(
  'the command line makes a group of the profile, with the command of the original’s image',
  async () => {
    const { code, stderr } = await squash(scene.daemon, [
      'group',
      'create',
      'image',
      '--profile',
      'nanoclaw-v1',
    ]);
    assert.equal(code, 0, stderr);
    const { command, profile } = await scene.call<{ command: string[]; profile: string }>(
      'GET',
      '/v1/groups/image',
    );
    assert.deepEqual([profile, command], ['nanoclaw-v1', ['/app/entrypoint.sh']]);
    assert.equal((await squash(scene.daemon, ['group', 'create', 'none'])).code, 2);
    const other = ['group', 'create', 'none', '--profile', 'nanoclaw-v3', '--', 'cat'];
    const refused = await squash(scene.daemon, other);
    assert.deepEqual(
      [refused.code, refused.stderr],
      [2, 'squash: --profile takes nanoclaw-v1 or nanoclaw-v2, not "nanoclaw-v3" (usage)\n'],
    );
  },
);
