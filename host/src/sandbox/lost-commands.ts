/** Commands that an earlier daemon followed and whose PID 1 is gone. */
import { forcedEnd } from './outcome.ts';
import type { Sandbox } from './sandbox.ts';

/** Nobody knows how they ended. Those that this daemon follows end by themselves. */
export function endLost(sandbox: Sandbox): void {
  const { world, row } = sandbox;
  const reason = row.pending?.op === 'activate' || row.pending?.op === 'restore' ? 'layers_changed' : 'lost';
  for (const exec of world.store.read(() => world.store.execs.unfinished(row.id))) {
    if (sandbox.runs.has(exec.seq)) continue;
    const end = forcedEnd(reason, sandbox.nowMs());
    try {
      world.store.pressing(() => world.store.execs.finish(exec.key, end));
      world.counters.execs[reason] += 1;
    } catch (error) {
      // A full disk, say, keeps no sandbox from starting.
      world.log.error('recover.lost', { sandbox: row.id, error });
      return;
    }
  }
}
