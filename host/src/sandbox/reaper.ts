/**
 * Ends sandboxes whose lifetime is over: one timer for the nearest deadline, and a look at least every ten seconds. An end that
 * fails is tried again by whoever removes. A lifetime is a duration: a wall clock that is set ends nothing.
 */
import { limits } from '@squash/contract/limits';
import type { SandboxRow } from '#store/rows.ts';

/** `bornMs` on the monotonic clock. */
type Mortal = Pick<SandboxRow, 'id' | 'maxLifetimeS'> & { readonly bornMs: number };

export interface ReaperOptions {
  /** Monotonic. */
  readonly nowMs: () => number;
  /** Sandboxes that live; asked at each look. */
  readonly rows: () => Iterable<Mortal>;
  /** Begins the end; errors are the callee's. May be called again for the same sandbox. */
  readonly reap: (id: SandboxRow['id']) => void;
}

export class Reaper implements Disposable {
  readonly #options: ReaperOptions;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: ReaperOptions) {
    this.#options = options;
  }

  /** Looks now and sets the timer; called when a sandbox was added. */
  look(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isClosed) return;
    const nowMs = this.#options.nowMs();
    let nearestMs: number | undefined;
    for (const row of this.#options.rows()) {
      const leftMs = timeLeftMs(row, nowMs);
      if (leftMs === undefined) continue;
      if (leftMs <= 0) this.#options.reap(row.id);
      nearestMs = Math.min(nearestMs ?? limits.reaperIntervalMs, Math.max(leftMs, 1_000));
    }
    // No sandbox with an end, no timer: an idle daemon does nothing.
    if (nearestMs === undefined) return;
    this.#timer = setTimeout(() => this.look(), Math.min(nearestMs, limits.reaperIntervalMs)).unref();
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }
}

/** Undefined where the sandbox has no end. */
export function timeLeftMs(row: Omit<Mortal, 'id'>, nowMs: number): number | undefined {
  return row.maxLifetimeS === 0 ? undefined : row.bornMs + row.maxLifetimeS * 1_000 - nowMs;
}
