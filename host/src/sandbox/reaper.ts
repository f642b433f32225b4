/**
 * Looks at sandboxes when their time is over: one timer for the nearest moment, and a look at least every ten seconds. What
 * fails is tried again at the next look. Times are durations: a wall clock that is set ends nothing.
 */
import { limits } from '@squash/contract/limits';
import type { SandboxId } from '@squash/contract/ids';

interface Mortal {
  readonly id: SandboxId;
  /** Milliseconds until something is to be done about it; infinity: nothing ever is. */
  readonly inMs: number;
}

export interface ReaperOptions {
  /** Sandboxes that live; asked at each look. */
  readonly rows: () => Iterable<Mortal>;
  /** Begins what is due; errors are the callee's. May be called again for the same sandbox. */
  readonly reap: (id: SandboxId) => void;
}

/** Two looks are never closer. */
const restMs = 1_000;

export class Reaper implements Disposable {
  readonly #options: ReaperOptions;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: ReaperOptions) {
    this.#options = options;
  }

  /** Looks now and sets the timer; called when a sandbox was added, or its times were changed. */
  look(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isClosed) return;
    let nearestMs = Number.POSITIVE_INFINITY;
    for (const { id, inMs } of this.#options.rows()) {
      if (inMs === Number.POSITIVE_INFINITY) continue;
      if (inMs <= 0) this.#options.reap(id);
      nearestMs = Math.min(nearestMs, Math.max(inMs, restMs));
    }
    // No sandbox with an end, no timer: an idle daemon does nothing.
    if (nearestMs === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.look(), Math.min(nearestMs, limits.reaperIntervalMs)).unref();
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }
}
