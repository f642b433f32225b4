/** A sandbox's life, one step after the other: create, first output of a first command, destroy. */
import { timed, timeToExit, timeToFirstByte } from '../measure/process.ts';
import { spawnOnce } from '../measure/rounds.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import { summarise } from '../measure/stats.ts';
import type { Peer } from '../peers/peer.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

export async function createScenario(context: Context): Promise<Scenario> {
  return {
    id: 'create',
    title: 'Create and destroy',
    about:
      'A new sandbox of two layers (peers: the same busybox root as one directory or image). "first output" is from the create request to the first output of `echo ok` in the new sandbox, both requests included; for tools that run one command per sandbox it is spawn to first byte. "Everything hot" has a whole life of a sandbox before each sample, unmeasured, and its ratios are to the median of five bare spawns right before the sample.',
    metrics: [
      { id: 'create', title: 'create', unit: 'ms' },
      { id: 'first', title: 'create → first output', unit: 'ms' },
      { id: 'destroy', title: 'destroy', unit: 'ms' },
      { id: 'spawn', title: 'bare spawn right before', unit: 'ms' },
      { id: 'createRatio', title: 'create, to the spawns right before', unit: 'S' },
      { id: 'firstRatio', title: 'create → first output, to the spawns right before', unit: 'S' },
      { id: 'destroyRatio', title: 'destroy, to the spawns right before', unit: 'S' },
    ],
    warmups: 5,
    rounds: rounds(context, 100),
    subjects: [
      ...(await squashSubjects(context, async (squash) => [
        squashLife(squash, 'Squash', {}),
        squashLife(squash, 'Squash, with a network policy', { policy }),
        hotLife(squash),
      ])),
      {
        name: 'spawn of `echo` (no isolation)',
        cycle: async () => ({ first: await timeToFirstByte(['/bin/echo', 'ok']) }),
      },
      ...context.peers.present.flatMap(peerSubjects),
      ...context.peers.absent,
    ],
  };
}

/** The first has the network that every sandbox has, open to public hosts; here each connection is to be judged by rules. */
const policy = {
  allow: ['preset:debian', 'preset:pypi', '*.example.com:443', '203.0.113.0/24'],
  deny: ['tracker.example.com'],
};

function squashLife(squash: SquashUnderTest, name: string, fields: object): Subject {
  return {
    name,
    cycle: async () => {
      const id = squash.nextId();
      const begun = await bringUp(squash, id, fields);
      return { ...begun, destroy: await timed(() => squash.client.destroy(id)) };
    },
  };
}

/** Nothing of another subject between the bare spawns and what is measured: caches and processors know both alike. */
function hotLife(squash: SquashUnderTest): Subject {
  return {
    name: 'Squash, everything hot',
    cycle: async () => {
      const before = squash.nextId();
      await bringUp(squash, before, {});
      await squash.client.destroy(before);
      const id = squash.nextId();
      const spawn = await hotSpawn();
      const { create, first } = await bringUp(squash, id, {});
      const spawnBeforeEnd = await hotSpawn();
      const destroy = await timed(() => squash.client.destroy(id));
      const ratios = {
        createRatio: create / spawn,
        firstRatio: first / spawn,
        destroyRatio: destroy / spawnBeforeEnd,
      };
      return { create, first, destroy, spawn: [spawn, spawnBeforeEnd], ...ratios };
    },
  };
}

async function bringUp(
  { client, layers }: SquashUnderTest,
  id: string,
  fields: object,
): Promise<{ create: number; first: number }> {
  const started = performance.now();
  await client.create(id, layers, fields);
  const create = performance.now() - started;
  await client.exec(id, 'echo ok');
  return { create, first: performance.now() - started };
}

/** The median of so many that the first ones' cold caches do not count. */
async function hotSpawn(): Promise<number> {
  const samples: number[] = [];
  for (let count = 0; count < 5; count++) samples.push(await spawnOnce());
  return summarise(samples).median;
}

function peerSubjects(peer: Peer): Subject[] {
  const once: Subject = {
    name: `${peer.name}, one command`,
    every: peer.every,
    cycle: async () => ({ first: await timeToFirstByte(peer.once(['/bin/echo', 'ok']), peer.env) }),
  };
  const { open } = peer;
  if (open === undefined) return [once];
  return [once, { name: peer.name, every: peer.every, cycle: async () => await peerLife(open) }];
}

async function peerLife(open: NonNullable<Peer['open']>): Promise<Sample> {
  const started = performance.now();
  const sandbox = await open();
  const create = performance.now() - started;
  const argv = sandbox.exec?.(['/bin/echo', 'ok']);
  if (argv !== undefined) await timeToExit(argv);
  const first = performance.now() - started;
  const destroy = await timed(async () => await sandbox.destroy());
  return argv === undefined ? { create, destroy } : { create, first, destroy };
}
