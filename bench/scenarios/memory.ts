/**
 * What idle sandboxes take: memory of all their processes (PSS) and of the kernel for each, the daemon's own
 * memory, and its processor time while nothing happens. Every sandbox has run one command before.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuMs, descendants, kernelBytes, rssBytes, totalPssBytes } from '../measure/proc-memory.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import type { Peer } from '../peers/peer.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';
import { type Context, squashSubjects } from './context.ts';

const megabyte = 1e6;
/** Created at once, so that 500 do not queue beyond the daemon's limits on waiting. */
const batch = 20;
/**
 * After its last command a sandbox's upper is measured once, up to three seconds later, and four seconds after its
 * last work the daemon gives back the memory that the work took; then both are at rest.
 */
const settleMs = 8000;

export async function memoryScenario(context: Context): Promise<Scenario> {
  // Each count waits for rest.
  const counts = context.quick ? [1, 100] : [1, 10, 100, 500];
  return {
    id: 'memory',
    title: 'Idle sandboxes',
    about:
      'Each has run `true` once and does nothing. "processes" is the PSS of all its processes; "kernel" is the growth of unreclaimable slab, stacks, page tables and per-CPU areas, which is the whole machine’s and therefore rough. Daemon: resident memory at rest, whatever was before (in a whole run: the bursts), and processor time over a window in which no request comes.',
    metrics: [
      { id: 'pss', title: 'processes of one idle sandbox (PSS)', unit: 'MB' },
      { id: 'kernel', title: 'kernel memory for one idle sandbox', unit: 'MB' },
      { id: 'rss', title: 'daemon, resident', unit: 'MB' },
      { id: 'cpu', title: 'daemon at rest, share of one processor', unit: '%' },
    ],
    warmups: 0,
    rounds: context.quick ? 1 : 3,
    // Most of it is waiting for rest.
    secondsMax: 240,
    subjects: [
      ...(await squashSubjects(context, async (squash) =>
        counts.map((count) => squashIdle(squash, count, context.quick)),
      )),
      ...context.peers.present.flatMap((peer) => peerIdle(peer, context.quick ? 2 : 10)),
      ...context.peers.absent,
    ],
  };
}

function squashIdle(squash: SquashUnderTest, count: number, quick: boolean): Subject {
  return {
    name: `Squash, ${count} sandbox${count === 1 ? '' : 'es'}`,
    // Half a minute of its own: once is enough for a figure that hardly varies.
    every: count >= 500 ? 3 : 1,
    cycle: async () => {
      const kernelBefore = await kernelBytes();
      const before = new Set(await descendants(squash.launcherPid));
      const ids = Array.from({ length: count }, () => squash.nextId());
      try {
        await inBatches(ids, async (id) => {
          await squash.client.create(id, squash.layers);
          await squash.client.exec(id, 'true');
        });
        const pids = (await descendants(squash.launcherPid)).filter((pid) => !before.has(pid));
        const idle = {
          pss: (await totalPssBytes(pids)) / count / megabyte,
          kernel: ((await kernelBytes()) - kernelBefore) / count / megabyte,
        };
        await sleep(settleMs);
        if (count < 100) return { ...idle, rss: (await rssBytes(squash.daemonPid)) / megabyte };
        const busyBefore = await cpuMs(squash.daemonPid);
        const windowMs = quick ? 5000 : 20_000;
        await sleep(windowMs);
        const cpu = (((await cpuMs(squash.daemonPid)) - busyBefore) / windowMs) * 100;
        return { ...idle, rss: (await rssBytes(squash.daemonPid)) / megabyte, cpu };
      } finally {
        await inBatches(ids, async (id) => await squash.client.destroy(id).catch(() => undefined));
      }
    },
  };
}

function peerIdle(peer: Peer, count: number): Subject[] {
  const { open } = peer;
  if (open === undefined) return [{ name: peer.name, absent: 'keeps no sandbox between commands' }];
  return [
    {
      name: `${peer.name}, ${count} sandboxes`,
      every: 3,
      cycle: async () => {
        await using stack = new AsyncDisposableStack();
        const kernelBefore = await kernelBytes();
        const pids: number[] = [];
        for (let index = 0; index < count; index++) {
          const sandbox = await open();
          stack.defer(async () => await sandbox.destroy());
          pids.push(...(await sandbox.pids()));
        }
        return {
          pss: (await totalPssBytes(pids)) / count / megabyte,
          kernel: ((await kernelBytes()) - kernelBefore) / count / megabyte,
        };
      },
    },
  ];
}

async function inBatches(ids: readonly string[], step: (id: string) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < ids.length; at += batch) await Promise.all(ids.slice(at, at + batch).map(step));
}
