/** Times that come, over a real store that refuses a write, or is opened again by the next daemon, at every step. */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate } from 'node:timers/promises';
import { after, before, test } from 'node:test';
import { groupLimits } from '@squash/contract/group-limits';
import { groupCreateSchema } from '@squash/contract/groups';
import { scheduleCreateSchema } from '@squash/contract/schedules';
import { keptLog } from '../../tests/support/kept-log.ts';
import { testStore, type TestStore } from '../../tests/support/store.ts';
import { Intake } from './intake.ts';
import { Registry } from './registry.ts';
import { Scheduler } from './scheduler.ts';
import { Schedules } from './schedules.ts';

const beginMs = Date.parse('2026-01-01T00:00:00Z');
const hourMs = 3_600_000;
let nowMs = beginMs;
let stored: TestStore;
let scheduler: Scheduler;

/** As a daemon does when it starts. */
function open(): void {
  const { store } = stored;
  const registry = new Registry(store.groups);
  scheduler = new Scheduler({
    rows: store.groups,
    scheduleRows: store.schedules,
    schedules: new Schedules(store.schedules, registry),
    registry,
    intake: new Intake(store.groups, registry),
    nowMs: () => nowMs,
    log: keptLog('error').log,
    changed: () => undefined,
  });
}

before(() => {
  stored = testStore();
  const registry = new Registry(stored.store.groups);
  for (const name of ['once', 'back', 'many']) {
    const body = groupCreateSchema.parse({ name, tier: 'untrusted', command: ['cat'] });
    registry.createGroup(body, { nowMs, by: null });
    registry.createChat({ name, group: name, trigger: null, senders: '*', others: 'drop' }, { nowMs });
  }
  open();
});
after(() => {
  scheduler[Symbol.dispose]();
  stored[Symbol.dispose]();
});

async function look(): Promise<void> {
  scheduler.wake();
  await setImmediate();
  await setImmediate();
}

function make(chat: string, name: string, more: object): void {
  scheduler.create(scheduleCreateSchema.parse({ chat, name, text: 'x', ...more }));
}

const runsOf = (group: string) => stored.store.groups.runsOf(group, 10);

for (const [write, context] of [
  ['INSERT ON group_runs', 'isolated'],
  ['INSERT ON chat_messages', 'isolated'],
  ['UPDATE ON chat_messages', 'isolated'],
  ['INSERT ON chat_messages', 'group'],
  ['UPDATE ON schedules', 'group'],
  ['INSERT ON schedule_lines', 'group'],
] as const)
  test(`a time comes whole or not at all where ${write} fails, ${context}, and once when it succeeds`, async () => {
    make('once', 'hourly', { every_s: 3_600, context });
    const runs = runsOf('once').length;
    const standing = scheduler.get('once', 'hourly');
    nowMs += hourMs;
    using raw = new DatabaseSync(stored.path);
    raw.exec(`CREATE TRIGGER broken BEFORE ${write} BEGIN SELECT RAISE(ABORT, 'broken'); END`);
    await look();
    assert.deepEqual(scheduler.get('once', 'hourly'), standing);
    assert.deepEqual([runsOf('once').length, stored.store.groups.waiting('once').length], [runs, 0]);
    raw.exec('DROP TRIGGER broken');
    for (let daemon = 0; daemon < 3; daemon += 1) {
      await look();
      scheduler[Symbol.dispose]();
      stored.reopen();
      open();
    }
    const lines = scheduler.runs('once', 'hourly', 10);
    assert.deepEqual(
      lines.map(({ verdict, due_at }) => [verdict, due_at]),
      [['started', standing.next_at]],
    );
    assert.equal(runsOf('once').length, runs + 1);
    scheduler.remove('once', 'hourly');
    const { groups } = stored.store;
    for (const row of runsOf('once'))
      groups.transaction(() => groups.putRun({ ...row, state: 'done', finishedMs: nowMs }));
    for (const { number } of groups.waiting('once')) groups.transaction(() => groups.deleteMessage(number));
  });

test('a clock that was far ahead holds up nothing when it is set', async () => {
  make('back', 'daily', { cron: '0 12 * * *' });
  const { next_at: first } = scheduler.get('back', 'daily');
  nowMs += 40 * 24 * hourMs;
  await look();
  assert.equal(scheduler.runs('back', 'daily', 10)[0]?.reason?.startsWith('it was missed'), true);
  nowMs -= 40 * 24 * hourMs;
  await look();
  assert.equal(scheduler.get('back', 'daily').next_at, first);
  assert.equal(scheduler.runs('back', 'daily', 10).length, 1);
});

test('many times at once come each, those for which there is no room with the limit', async () => {
  const most = groupLimits.waitingMax;
  for (let at = 0; at <= most; at += 1) make('many', `many-${at}`, { every_s: 60 });
  nowMs += 60_000;
  await look();
  const verdicts = scheduler
    .list({ chat: 'many' })
    .map(({ name }) => scheduler.runs('many', name, 10).map(({ verdict, reason }) => [verdict, reason]));
  assert.equal(verdicts.filter((lines) => lines.length === 1 && lines[0]?.[0] === 'started').length, most);
  const refused = verdicts.flat().find(([verdict]) => verdict === 'refused');
  assert.match(refused?.[1] ?? '', /messages waiting in chat "many"/);
  assert.equal(runsOf('many').length, 1, 'one run has them all');
});
