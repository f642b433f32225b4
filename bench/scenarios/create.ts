/** A sandbox's life, one step after the other: create, first output of a first command, destroy. */
import { timed, timeToExit, timeToFirstByte } from '../measure/process.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import type { Peer } from '../peers/peer.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

export async function createScenario(context: Context): Promise<Scenario> {
  return {
    id: 'create',
    title: 'Create and destroy',
    about:
      'A new sandbox of two layers (peers: the same busybox root as one directory or image). "first output" is from the create request to the first output of `echo ok` in the new sandbox, both requests included; for tools that run one command per sandbox it is spawn to first byte.',
    metrics: [
      { id: 'create', title: 'create', unit: 'ms' },
      { id: 'first', title: 'create → first output', unit: 'ms' },
      { id: 'destroy', title: 'destroy', unit: 'ms' },
    ],
    warmups: 5,
    rounds: rounds(context, 100),
    subjects: [
      ...(await squashSubjects(context, async (squash) => [
        squashLife(squash, 'Squash', {}),
        squashLife(squash, 'Squash, with a network policy', { policy }),
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
      const started = performance.now();
      await squash.client.create(id, squash.layers, fields);
      const create = performance.now() - started;
      await squash.client.exec(id, 'echo ok');
      const first = performance.now() - started;
      return { create, first, destroy: await timed(() => squash.client.destroy(id)) };
    },
  };
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
