/**
 * A daemon with two groups of different tiers is killed at random moments of their work and of its own start: no message is lost or
 * handled twice, no time of a schedule runs twice, no action is decided or done twice, and each conversation keeps its order.
 *
 * `./squash test --long` kills 200 times, and in the start of every third that follows; `KILLS=1000 SEED=7 node --test tests/faults/group-kills.test.ts` any number.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Action } from '@squash/contract/actions';
import type { Tier } from '@squash/contract/tiers';
import { isSingleId } from '../support/data-session.ts';
import { GroupScene } from '../support/group-scene.ts';
import { waitFor } from '../support/wait.ts';
import {
  agent,
  atRest,
  chats,
  type GroupName,
  GroupModel,
  groupNames,
  groupOf,
  tiers,
} from './group-model.ts';
import { type Random, seeded } from './random.ts';

const kills = Number(process.env['KILLS'] ?? (process.env['TEST_LONG'] === '1' ? 200 : 8));
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
/** Kills of one daemon: of each group and schedule the daemon keeps a bounded number of rows, and the model looks at them all. */
const killsOfRound = 40;
/** After so many everything is let come to its end, and has to be as it should. */
const killsTillRest = 8;
/** From the daemon's first answer to its death at most. */
const lifeMs = 1_500;

/** What is done to one daemon, and when it dies. */
interface Life {
  /** Its successor is killed in its start, or just behind, after so much of the time that the last start took; undefined: it is not. */
  readonly earlier: number | undefined;
  readonly afterMs: number;
  readonly messages: readonly { readonly chat: string; readonly text: string; readonly atMs: number }[];
  readonly once: { readonly chat: string; readonly text: string; readonly afterMs: number } | undefined;
  /** Of those messages that nobody was heard of: sent again. */
  readonly isSaidAgain: boolean;
}

function lifeOf(random: Random, serial: number): Life {
  const kinds = ['', '', '', '-ask', '-ask', '-wake', '-flaky'] as const;
  const messages = Array.from({ length: 2 + random.below(5) }, (_, at) => ({
    chat: random.pick(chats),
    text: `m-${serial}-${at}${random.pick(kinds)}`,
    atMs: random.below(lifeMs),
  }));
  return {
    earlier: random.below(3) === 0 ? random.below(130) / 100 : undefined,
    // Half of the kills come while a message is being taken.
    afterMs: random.below(2) === 0 ? random.pick(messages).atMs + random.below(40) : random.below(lifeMs),
    messages,
    once:
      random.below(3) === 0
        ? { chat: random.pick(chats), text: `t-once-${serial}`, afterMs: 200 + random.below(2_000) }
        : undefined,
    isSaidAgain: random.below(4) !== 0,
  };
}

/** One daemon's life, with all that people do meanwhile. */
async function live(
  scene: GroupScene,
  model: GroupModel,
  { life, random }: { life: Life; random: Random },
): Promise<void> {
  const dying = new AbortController();
  const told: unknown[] = [];
  // Whoever hears no answer has to do with a dead daemon, and says it again in another life; all else is a fault.
  const tried = async (work: () => Promise<void>): Promise<void> => {
    if (dying.signal.aborted) return;
    await work().catch((error: unknown) => {
      if (!(error instanceof TypeError)) told.push(error);
    });
  };
  const later = async (atMs: number, work: () => Promise<void>): Promise<void> => {
    await delay(atMs);
    await tried(work);
  };
  const sender = async (): Promise<void> => {
    if (!life.isSaidAgain) return;
    for (const sent of model.unheard) await tried(() => model.send(scene, sent));
  };
  const { once } = life;
  const work = [
    ...life.messages.map((each) => later(each.atMs, () => model.send(scene, each))),
    ...(once === undefined ? [] : [later(0, () => model.scheduleOnce(scene, once))]),
    sender(),
    person(scene, model, { tried, dying: dying.signal, random }),
  ];
  await delay(life.afterMs);
  const killed = scene.daemon.kill();
  dying.abort();
  await killed;
  await Promise.all(work);
  if (told.length > 0) throw new AggregateError(told, told.map(String).join('\n'));
}

/** Decides what waits, says again what he heard no answer to, and sometimes the opposite of what is decided. */
async function person(
  scene: GroupScene,
  model: GroupModel,
  {
    tried,
    dying,
    random,
  }: { tried: (work: () => Promise<void>) => Promise<void>; dying: AbortSignal; random: Random },
): Promise<void> {
  for (const [number, { decision, isHeard }] of model.decisions())
    if (!isHeard) await tried(() => model.decide(scene, number, decision));
  const over = model.decisions().at(-1);
  if (over !== undefined && over[1].isHeard)
    await tried(() => model.decide(scene, over[0], over[1].decision === 'allow' ? 'deny' : 'allow'));
  while (!dying.aborted) {
    await tried(() => decideAll(scene, model, random));
    await delay(60);
  }
}

async function decideAll(scene: GroupScene, model: GroupModel, random: Random): Promise<void> {
  const { items } = await scene.call<{ items: Action[] }>('GET', '/v1/group-actions?state=held&limit=1000');
  const known = new Map(model.decisions());
  for (const { number } of items)
    await model.decide(
      scene,
      number,
      known.get(number)?.decision ?? (random.below(2) === 0 ? 'deny' : 'allow'),
    );
}

const schedules = [
  { chat: 'boss', name: 't-every-2', every_s: 2 },
  { chat: 'helper-more', name: 't-every-3', every_s: 3, context: 'isolated', missed: 'skip' },
] as const;

/** Both groups, their chats, a schedule of each. */
async function begin(scene: GroupScene): Promise<void> {
  const { items } = await scene.call<{ items: Tier[] }>('GET', '/v1/tiers');
  const { name: _name, built_in: _, ...main } = items.find(({ name }) => name === 'main') ?? assert.fail();
  await scene.call('PUT', `/v1/tiers/${tiers.boss}`, { ...main, warm_s: 3_600 });
  for (const name of groupNames) await scene.group(name, tiers[name], { script: agent });
  for (const name of chats)
    if (!groupNames.some((each) => each === name)) await scene.chat({ name, group: groupOf(name) });
  for (const schedule of schedules)
    await scene.call('POST', '/v1/schedules', { ...schedule, text: schedule.name });
}

async function pauseSchedules(scene: GroupScene, paused: boolean): Promise<void> {
  for (const { chat, name } of schedules)
    await scene.call('PATCH', `/v1/schedules/${chat}/${name}`, { paused });
}

/** Until nothing waits for anybody. */
async function settle(scene: GroupScene, model: GroupModel, random: Random): Promise<void> {
  await pauseSchedules(scene, true);
  for (const sent of model.unheard) await model.send(scene, sent);
  await waitFor('schedules that come once', async () => {
    const { items } = await scene.call<{ items: { state: string }[] }>('GET', '/v1/schedules');
    return items.every(({ state }) => state !== 'active');
  });
  // What is allowed may start a run, which asks for nothing more that waits.
  await atRest(scene);
  await decideAll(scene, model, random);
  await atRest(scene);
  const runs = (await Promise.all(groupNames.map((group) => scene.runs(group)))).flat();
  const kept = runs.flatMap(({ sandbox }) => sandbox ?? []);
  const { items } = await scene.call<{ items: { id: string; state: string }[] }>('GET', '/v1/sandboxes');
  assert.deepEqual(
    items.map(({ id, state }) => `${id} ${state}`).toSorted(),
    kept.map((id) => `${id} stopped`).toSorted(),
    'each sandbox that is left is some chat’s, and nothing of it runs',
  );
}

/** What each group's agents wrote, seen from another sandbox: a folder is one sandbox's at a time. */
async function foldersOf(scene: GroupScene): Promise<Readonly<Record<GroupName, string>>> {
  const folders = { boss: '--\n', helper: '--\n' };
  for (const name of groupNames) {
    const { volume } = await scene.call<{ volume: string | null }>('GET', `/v1/groups/${name}`);
    // No run has had one yet.
    if (volume === null) continue;
    const mounts = [{ volume, path: '/folder', mode: 'ro' }];
    const { id } = await scene.call<{ id: string }>('POST', '/v1/sandboxes', { mounts });
    const path = `/v1/sandboxes/${id}`;
    const shell = 'cd /folder; cat begun; echo --; cat seen';
    folders[name] = (await scene.call<{ stdout: string }>('POST', `${path}/exec`, { shell })).stdout;
    await scene.call('DELETE', path);
  }
  return folders;
}

/** @returns false where agents can't run */
async function round(from: number, to: number, say: (line: string) => void): Promise<boolean> {
  const random = seeded(seed + from);
  await using scene = await GroupScene.start();
  if (await isSingleId(scene.daemon)) return false;
  const model = new GroupModel();
  await begin(scene);
  let startMs = 1_000;
  let deaths = 0;
  for (let serial = from; serial < to; serial += 1) {
    const life = lifeOf(random, serial);
    try {
      await live(scene, model, { life, random });
      deaths += 1;
      if (life.earlier !== undefined) {
        await scene.daemon.launch();
        await delay(life.earlier * startMs);
        await scene.daemon.kill();
        deaths += 1;
      }
      const beganMs = performance.now();
      await scene.daemon.start();
      startMs = performance.now() - beganMs;
      await model.check(scene);
      if (process.env['KILLS_TELL'] === '1')
        console.error(`${deaths} deaths: ${JSON.stringify(model.counts)}`);
      if ((serial + 1 - from) % killsTillRest !== 0 && serial + 1 !== to) continue;
      await settle(scene, model, random);
      await model.check(scene);
      model.checkAtRest(await foldersOf(scene));
      await pauseSchedules(scene, false);
    } catch (error) {
      const what = `seed ${seed}, kill ${serial}, ${JSON.stringify(life)}: ${String(error)}`;
      throw new Error(`${what}\n${scene.daemon.output.slice(-6_000)}`, { cause: error });
    }
  }
  say(`${deaths} deaths: ${JSON.stringify(model.counts)}`);
  return true;
}

test(`groups survive ${kills} kills of their daemon (seed ${seed})`, async (context) => {
  for (let from = 0; from < kills; from += killsOfRound) {
    const isDone = await round(from, Math.min(kills, from + killsOfRound), (line) =>
      context.diagnostic(line),
    );
    if (!isDone) return context.skip('single-id mode: there is no uid 1000');
  }
});
