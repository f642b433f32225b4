/**
 * How soon output that somebody follows is stored, and so passed on: at once, as long as storing takes a small part of the
 * daemon's time. All sandboxes share that part, so that a flood of lines costs no more than it did without followers. Time in which
 * nothing was stored counts for a while: an answer of a few pieces goes out without a rest between them.
 */
import { limits } from '@squash/contract/limits';

/** How much of the time in which nothing was stored still counts. */
const savedMs = 100;

export class OutputPace {
  #freeAtMs = 0;

  /** From now until the next piece may be stored; another one's flood costs a follower `outputFlushMs` at most. */
  waitMs(nowMs: number = performance.now()): number {
    return Math.min(Math.max(0, this.#freeAtMs - nowMs), limits.outputFlushMs);
  }

  /** Storing took from `beganMs` until now. */
  stored(beganMs: number, nowMs: number = performance.now()): void {
    const restMs = (nowMs - beganMs) * limits.outputFollowRest;
    const since = Math.max(this.#freeAtMs, beganMs - savedMs);
    this.#freeAtMs = Math.min(since + restMs, nowMs + limits.outputFlushMs);
  }
}
