/**
 * A hundred sandboxes asked for at the same instant, each with its first command behind it.
 * One sample per sandbox: the time from the burst's start until that sandbox gave its output.
 */
import { timeToFirstByte } from '../measure/process.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import { quantile } from '../measure/stats.ts';
import type { Peer } from '../peers/peer.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';
import { type Context, squashSubjects } from './context.ts';

const burstSize = 100;
/** Room that a hundred processes of a heavy client (srt: Node each) take; below it they would swap, not race. */
const heavyBytesMin = 12e9;

export async function burstScenario(context: Context, freeBytes: number): Promise<Scenario> {
  const bursts = context.quick ? 1 : 15;
  return {
    id: 'burst',
    title: `Burst of ${burstSize}`,
    about: `${burstSize} sandboxes requested at once; from the burst's start to each one's first output. The first table is of all sandboxes of all bursts, the second of the ninety-fifth sandbox of each burst: the p95 of one burst, and how much bursts differ. A single failure would take the subject out of the table.`,
    metrics: [
      { id: 'first', title: 'create → first output, all at once', unit: 'ms' },
      { id: 'ninety_fifth', title: 'the ninety-fifth of a burst', unit: 'ms' },
    ],
    warmups: 1,
    rounds: bursts,
    subjects: [
      ...(await squashSubjects(context, async (squash) => [
        { name: 'Squash', cycle: async () => await squashBurst(squash) },
      ])),
      {
        name: 'spawn of `echo` (no isolation)',
        cycle: async () => await commandBurst(() => timeToFirstByte(['/bin/echo', 'ok'])),
      },
      ...context.peers.present.map((peer) => peerBurst(peer, context.quick, freeBytes)),
      ...context.peers.absent,
    ],
  };
}

async function squashBurst(squash: SquashUnderTest): Promise<Sample> {
  const ids = Array.from({ length: burstSize }, () => squash.nextId());
  const started = performance.now();
  const outcomes = await Promise.allSettled(
    ids.map(async (id) => {
      await squash.client.create(id, squash.layers);
      await squash.client.exec(id, 'echo ok');
      return performance.now() - started;
    }),
  );
  await Promise.allSettled(ids.map((id) => squash.client.destroy(id)));
  return sampleOf(allOrThrow(outcomes));
}

async function commandBurst(one: () => Promise<number>): Promise<Sample> {
  const started = performance.now();
  const outcomes = await Promise.allSettled(
    Array.from({ length: burstSize }, async () => {
      // Node starts children one after the other: a late start counts, as a late answer does for Squash.
      const before = performance.now() - started;
      return before + (await one());
    }),
  );
  return sampleOf(allOrThrow(outcomes));
}

function sampleOf(first: number[]): Sample {
  const sorted = first.toSorted((a, b) => a - b);
  return { first, ninety_fifth: quantile(sorted, 0.95) };
}

function peerBurst(peer: Peer, quick: boolean, freeBytes: number): Subject {
  if (quick && peer.every > 1)
    return { name: peer.name, absent: 'left out of --quick: it takes half a minute' };
  if (peer.name === 'srt' && freeBytes < heavyBytesMin) {
    return { name: peer.name, absent: `less than ${heavyBytesMin / 1e9} GB of free memory` };
  }
  return {
    name: peer.name,
    // One burst of a slow peer is a hundred samples already.
    every: peer.every > 1 ? 1000 : 1,
    cycle: async (round) => {
      if (round < 0 && peer.every > 1) return {};
      return await commandBurst(() => timeToFirstByte(peer.once(['/bin/echo', 'ok']), peer.env));
    },
  };
}

function allOrThrow(outcomes: readonly PromiseSettledResult<number>[]): number[] {
  const values: number[] = [];
  const failures: unknown[] = [];
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') values.push(outcome.value);
    else failures.push(outcome.reason);
  }
  if (failures.length > 0)
    throw new Error(`${failures.length} of ${outcomes.length} failed, first: ${String(failures[0])}`);
  return values;
}
