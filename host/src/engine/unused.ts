/**
 * When nobody needs a sandbox any longer that is to end then (`when_unused`): no command runs in it that goes on by itself, and nobody is
 * connected to another. A program that works all the same keeps nothing: it outlived the command line that it was for.
 */
import type { Run } from '../sandbox/run.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

/** Between two commands of the same caller, and before the first. */
const graceMs = 10_000;
const lookMs = 2_000;

export class Unused {
  readonly #sinceMs = new WeakMap<Sandbox, number>();

  /** Until it is to end, or to be looked at again. */
  inMs(sandbox: Sandbox): number {
    const { row, state, runs, activity, world } = sandbox;
    const end = row.hostRoot?.root.when_unused ?? 'keep';
    const isNeeded = [...runs.values()].some((run) => isWaitedFor(run));
    if (end === 'keep' || state.phase !== 'ready' || isNeeded) {
      this.#sinceMs.delete(sandbox);
      return isNeeded && end !== 'keep' ? lookMs : Number.POSITIVE_INFINITY;
    }
    const nowMs = world.clock.monoMs();
    // Nobody may have looked while it was at rest.
    const firstMs = Math.max(this.#sinceMs.get(sandbox) ?? nowMs, activity.resumedMs);
    this.#sinceMs.set(sandbox, firstMs);
    const sinceMs = runs.size === 0 ? Math.max(firstMs, activity.usedMs) : firstMs;
    return sinceMs + graceMs - nowMs;
  }
}

/** A stream's command is for whoever is connected to it; every other one says itself how long it may run. */
function isWaitedFor({ row, isWatched, isLookedAt }: Run): boolean {
  return row.kind !== 'stream' || isWatched || isLookedAt;
}
