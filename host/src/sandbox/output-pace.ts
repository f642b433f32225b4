/**
 * How soon output that somebody follows is stored, and so passed on: at once, as long as storing takes a small part of the
 * daemon's time. All sandboxes share that part, so that a flood of lines costs no more than it did without followers.
 */
import { limits } from '@squash/contract/limits';

export class OutputPace {
  #freeAtMs = 0;

  /** From now until the next piece may be stored; another one's flood costs a follower `outputFlushMs` at most. */
  waitMs(nowMs: number = performance.now()): number {
    return Math.min(Math.max(0, this.#freeAtMs - nowMs), limits.outputFlushMs);
  }

  /** Storing took from `beganMs` until now. */
  stored(beganMs: number, nowMs: number = performance.now()): void {
    const restMs = (nowMs - beganMs) * limits.outputFollowRest;
    this.#freeAtMs = Math.min(Math.max(this.#freeAtMs, nowMs) + restMs, nowMs + limits.outputFlushMs);
  }
}
