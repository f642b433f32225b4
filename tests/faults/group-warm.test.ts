/**
 * The daemon dies in every step of keeping a sandbox for a chat's next run, of using it again, and of the run in it: each message is handled
 * once, each answer told once, and of what that daemon kept nothing is left.
 */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import type { FaultPoint } from '../../host/src/sandbox/fault.ts';
import { agentTests, GroupScene, isLeft } from '../support/group-scene.ts';
import { waitFor } from '../support/wait.ts';

/** How often each is passed until then: the first time in a run that makes its sandbox, or when that is kept. */
const points: readonly (FaultPoint | `${FaultPoint}:${number}`)[] = [
  'stop.committed',
  'unmount.detached',
  'unmount.committed:3',
  // It is used again …
  'mount.committed',
  'mount.attached:3',
  'start.committed',
  'exec.inserted:2',
  'exec.started:2',
  'exec.output:2',
  'exec.exited:2',
  'exec.finished:2',
  'exec.released:2',
  // … and kept again.
  'stop.committed:2',
  'unmount.committed:6',
];

let scene: GroupScene;
before(async () => {
  scene = await GroupScene.start();
  await scene.tier('warm', { warm_s: 600 });
});
after(() => scene[Symbol.asyncDispose]());

const withAgents = agentTests(() => scene);

async function kept(): Promise<readonly string[]> {
  const { items } = await scene.call<{ items: { id: string }[] }>('GET', '/v1/sandboxes');
  return items.map(({ id }) => id);
}

for (const [at, point] of points.entries()) {
  withAgents(`no message is lost or handled twice when the daemon dies at ${point}`, async () => {
    const name = `g-${at}`;
    await scene.group(name, 'warm', {
      script: `echo run $SQUASH_RUN >>begun; echo $SQUASH_CHAT >/tmp/left; grep -o '>m-[0-9]*<' >>seen; echo said $SQUASH_RUN`,
    });
    await scene.daemon.kill();
    await scene.daemon.start({ SQUASH_FAULT_POINT: point });
    const texts: string[] = [];
    for (const text of ['m-1', 'm-2']) {
      const taken = await scene.say(name, text).catch(() => undefined);
      // Nobody was heard, or it dies before the first is over: the other is said to the next daemon.
      if (taken === undefined) break;
      texts.push(`>${text}<`);
      await waitFor(`run ${taken.run}, or a death`, async () => {
        const run = await scene.run(name, taken.run).catch(() => 'dead' as const);
        return run === 'dead' || (run !== undefined && isLeft(run));
      });
    }
    await waitFor(`a death at ${point}`, () => scene.daemon.pid === undefined);
    await scene.daemon.kill();
    await scene.daemon.start();
    const { run } = await scene.say(name, 'm-3');
    await scene.ended(name, run);
    const runs = await scene.runs(name);
    assert.deepEqual([...new Set(runs.map(({ state }) => state))], ['done']);
    const said = (await scene.said(name)).map(({ text }) => text).join('');
    const whole = runs.map((each) => `said ${each.run}\n`).toReversed();
    assert.equal(said, whole.join(''));
    const { volume } = await scene.call<{ volume: string }>('GET', `/v1/groups/${name}`);
    const mounts = [{ volume, path: '/folder', mode: 'ro' }];
    const { id } = await scene.call<{ id: string }>('POST', '/v1/sandboxes', { mounts });
    const shell = 'cd /folder; cat seen; cat begun';
    const { stdout } = await scene.call<{ stdout: string }>('POST', `/v1/sandboxes/${id}/exec`, { shell });
    await scene.call('DELETE', `/v1/sandboxes/${id}`);
    assert.deepEqual(stdout.trim().split('\n'), [
      ...texts,
      '>m-3<',
      ...runs.map((each) => `run ${each.run}`).toReversed(),
    ]);
    const mine = runs.flatMap(({ sandbox }) => sandbox ?? []);
    await waitFor('the end of all that the dead daemon kept', async () => {
      const all = await kept();
      return all.length === 1 && all[0] === mine[0];
    });
    await scene.call('DELETE', `/v1/groups/${name}`);
    assert.deepEqual(await kept(), []);
  });
}

withAgents(
  'nothing of a session or a folder is left when the daemon dies as its chat or group is changed',
  async () => {
    const volumes = async (): Promise<readonly string[]> => {
      const { items } = await scene.call<{ items: { name: string }[] }>('GET', '/v1/volumes');
      return items.map(({ name }) => name).filter((name) => name !== 'groups-global');
    };
    await scene.tier('fresh', {});
    await scene.group('gone', 'fresh', { script: 'echo here >$SQUASH_SESSION/file' });
    const before = await volumes();
    const changes = [
      ['POST', '/v1/chats/gone/reset', 1],
      ['DELETE', '/v1/groups/gone', 0],
    ] as const;
    for (const [method, path, left] of changes) {
      await scene.answer('gone');
      await scene.daemon.kill();
      await scene.daemon.start({ SQUASH_FAULT_POINT: 'volume-remove.marked' });
      await scene.daemon.request(method, path).catch(() => undefined);
      await waitFor('a death', () => scene.daemon.pid === undefined);
      await scene.daemon.kill();
      await scene.daemon.start();
      assert.equal((await volumes()).length, before.length + left, `${method} ${path}`);
    }
  },
);
